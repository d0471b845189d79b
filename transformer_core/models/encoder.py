"""The stack of encoder layers."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_positive_int, check_shape
from transformer_core.foundation.names import join
from transformer_core.layers.encoder_layer import EncoderLayer, EncoderLayerCache
from transformer_core.layers.layer import Layer
from transformer_core.layers.spec import LayerSpec


class EncoderCache(NamedTuple):
    layers: tuple[EncoderLayerCache, ...]
    final_norm: tuple | None


class Encoder(Layer):
    """L encoder layers, then, where asked for, a final normalisation.

    Parameters
    ----------
    spec : LayerSpec
        Of every layer.
    layers : int
        L.
    rng : numpy.random.Generator
    final_norm : bool
        Pre-LN stacks need one: nothing else normalises what their layers add up.
    """

    def __init__(
        self, spec: LayerSpec, layers: int, rng: np.random.Generator, final_norm: bool
    ):
        check_positive_int("layers", layers)
        self.width = spec.width
        self.layers = [EncoderLayer(spec, rng) for _ in range(layers)]
        self.final_norm = spec.make_norm() if final_norm else None

    def forward(
        self,
        x: np.ndarray,
        keep: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, EncoderCache]:
        """Map x (B, T, D) to y (B, T, D); ``keep`` broadcasts to (B, H, T, T).

        ``rng`` draws what is dropped in training; None: evaluation.
        """
        check_shape("x", x, "B", "T", self.width)
        caches = []
        for layer in self.layers:
            x, cache = layer.forward(x, keep, rng)
            caches.append(cache)
        norm_cache = None
        if self.final_norm:
            x, norm_cache = self.final_norm.forward(x)
        return x, EncoderCache(tuple(caches), norm_cache)

    def backward(self, dy: np.ndarray, cache: EncoderCache) -> tuple[np.ndarray, dict]:
        """Return dx (B, T, D) and the gradient of every parameter (eq:chain-backward)."""
        grads = {}
        if self.final_norm:
            dy, grads["final_norm"] = self.final_norm.backward(dy, cache.final_norm)
        for i in reversed(range(len(self.layers))):
            dy, grads[f"layer_{i}"] = self.layers[i].backward(dy, cache.layers[i])
        return dy, join(grads)
