"""The stack of decoder layers."""

from typing import Any, NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_positive_int, check_shape
from transformer_core.foundation.names import join
from transformer_core.layers.decoder_layer import DecoderLayer, DecoderLayerCache
from transformer_core.layers.layer import Layer
from transformer_core.layers.multi_head_attention import KeyValue
from transformer_core.layers.spec import LayerSpec


class DecoderCache(NamedTuple):
    layers: tuple[DecoderLayerCache, ...]
    final_norm: tuple | None


class Decoder(Layer):
    """L decoder layers that attend to one source, then, where asked for, a final normalisation.

    Parameters
    ----------
    spec, layers, rng, final_norm
        As for :class:`Encoder`.
    """

    def __init__(
        self, spec: LayerSpec, layers: int, rng: np.random.Generator, final_norm: bool
    ):
        check_positive_int("layers", layers)
        self.width = spec.width
        self.layers = [DecoderLayer(spec, rng) for _ in range(layers)]
        self.final_norm = spec.make_norm() if final_norm else None

    def forward(
        self,
        x: np.ndarray,
        source: np.ndarray,
        keep: np.ndarray | None = None,
        source_keep: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, DecoderCache]:
        """Map x (B, T, D) and source (B, S, D) to y (B, T, D).

        ``keep`` broadcasts to (B, H, T, T), ``source_keep`` to (B, H, T, S). ``rng`` draws what
        is dropped in training; None: evaluation.
        """
        check_shape("x", x, "B", "T", self.width)
        caches = []
        for layer in self.layers:
            x, cache = layer.forward(x, source, keep, source_keep, rng)
            caches.append(cache)
        norm_cache = None
        if self.final_norm:
            x, norm_cache = self.final_norm.forward(x)
        return x, DecoderCache(tuple(caches), norm_cache)

    def backward(
        self, dy: np.ndarray, cache: DecoderCache
    ) -> tuple[np.ndarray, np.ndarray, dict]:
        """Return dx, dsource and the gradient of every parameter (eq:encoder-decoder-backward)."""
        grads = {}
        if self.final_norm:
            dy, grads["final_norm"] = self.final_norm.backward(dy, cache.final_norm)
        dsource: Any = 0
        for i in reversed(range(len(self.layers))):
            dy, dsource_i, grads[f"layer_{i}"] = self.layers[i].backward(
                dy, cache.layers[i]
            )
            dsource = dsource + dsource_i  # every layer attends to the same source
        return dy, dsource, join(grads)

    def read(self, source: np.ndarray) -> tuple[KeyValue, ...]:
        """Return the keys and values of a source (B, S, D), a pair for each layer."""
        return tuple(layer.cross_attention.branch.read(source) for layer in self.layers)

    def step(
        self,
        x: np.ndarray,
        past: tuple[KeyValue, ...],
        source: tuple[KeyValue, ...],
        source_keep: np.ndarray | None = None,
    ) -> tuple[np.ndarray, tuple[KeyValue, ...]]:
        """Map one new position x (B, 1, D) to y, in evaluation (eq:cached-attention).

        ``past`` and ``source`` hold a pair for each layer; so does the past that is returned,
        with the new position's.
        """
        extended = []
        for layer, own, read in zip(self.layers, past, source, strict=True):
            x, pair = layer.step(x, own, read, source_keep)
            extended.append(pair)
        if self.final_norm:
            x, _ = self.final_norm.forward(x)
        return x, tuple(extended)
