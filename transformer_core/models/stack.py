"""Stacks of layers: the encoder, the decoder, and what is common to them."""

from copy import deepcopy
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from transformer_core.foundation.checks import (
    check_kind,
    check_positive_int,
    check_shape,
)
from transformer_core.foundation.names import join
from transformer_core.layers.decoder_layer import DecoderLayer
from transformer_core.layers.encoder_layer import EncoderLayer
from transformer_core.layers.layer import Layer, member
from transformer_core.layers.spec import LayerSpec


class LayerInput(NamedTuple):
    """What a layer is given: enough to compute its cache again."""

    x: np.ndarray
    context: tuple
    rng: np.random.Generator | None  # as it was before the layer drew


class StackCache(NamedTuple):
    layers: tuple
    final_norm: tuple | None


class Stack(Layer):
    """L layers of one kind, then, where asked for, a final normalisation.

    Parameters
    ----------
    spec : LayerSpec
        Of every layer.
    layers : int
        L.
    rng : numpy.random.Generator
    final_norm : bool
        Pre-LN stacks need one: nothing else normalises what their layers add up.
    recompute : bool
        Keep only what each layer is given, and compute its forward pass again when the backward
        pass reaches it. The gradients are the same bit for bit: the generator is as it was.
    """

    kind: type  # of the layers: built by (spec, rng)

    def __init__(
        self,
        spec: LayerSpec,
        layers: int,
        rng: np.random.Generator,
        final_norm: bool,
        recompute: bool = False,
    ):
        check_kind("spec", spec, LayerSpec)
        check_positive_int("layers", layers)
        check_kind("recompute", recompute, bool)
        self.width, self.recompute = spec.width, recompute
        self.layers = [self.kind(spec, rng) for _ in range(layers)]
        self.final_norm = spec.make_norm() if final_norm else None

    def forward(
        self, x: np.ndarray, *context: Any, rng: np.random.Generator | None = None
    ) -> tuple[np.ndarray, StackCache]:
        """Map x (B, T, D) to y (B, T, D); ``context`` goes to every layer, as it is.

        ``rng`` draws what is dropped in training; None: evaluation.
        """
        check_shape("x", x, "B", "T", self.width)
        caches = []
        for layer in self.layers:
            given = LayerInput(x, context, deepcopy(rng)) if self.recompute else None
            x, cache = layer.forward(x, *context, rng=rng)
            caches.append(given or cache)
            del cache  # with recompute it is not held while the next layer computes
        norm_cache = None
        if self.final_norm:
            x, norm_cache = self.final_norm.forward(x)
        return x, StackCache(tuple(caches), norm_cache)

    def backward(self, dy: np.ndarray, cache: StackCache) -> tuple:
        """Return dx (B, T, D), the gradient of each context that has one, and the gradients.

        The last layer comes first (eq:chain-backward). All layers have the same context: its
        gradient is the sum of what they return (eq:encoder-decoder-backward).
        """
        grads = {}
        if self.final_norm:
            dy, grads["final_norm"] = self.final_norm.backward(dy, cache.final_norm)
        dcontext: list = []
        for i in reversed(range(len(self.layers))):
            own_cache = cache.layers[i]
            if isinstance(own_cache, LayerInput):
                x, context, rng = own_cache
                _, own_cache = self.layers[i].forward(x, *context, rng=deepcopy(rng))
            dy, *dparts, own = self.layers[i].backward(dy, own_cache)
            dcontext = [a + b for a, b in zip_longest(dcontext, dparts, fillvalue=0)]
            grads[member("layers", i)] = own
        return dy, *dcontext, join(grads)

    def begin(self, start: Any) -> tuple:
        """Return the state of every layer before the first position.

        ``start`` is what the layers begin with: the number of sequences, or the source (B, S, D).
        """
        return tuple(layer.begin(start) for layer in self.layers)

    def step(
        self, x: np.ndarray, state: tuple, *context: Any
    ) -> tuple[np.ndarray, tuple]:
        """Map N new positions x (B, N, D) to y, in evaluation (eq:cached-attention).

        ``state`` is that of every layer; it is returned with the new positions.
        """
        states = []
        for layer, own in zip(self.layers, state, strict=True):
            x, own = layer.step(x, own, *context)
            states.append(own)
        if self.final_norm:
            x, _ = self.final_norm.forward(x)
        return x, tuple(states)


class Encoder(Stack):
    """Layers of self-attention; with a causal mask, a decoder without a source. See Stack."""

    kind = EncoderLayer

    def forward(  # type: ignore[override]
        self,
        x: np.ndarray,
        keep: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, StackCache]:
        """Map x (B, T, D) to y (B, T, D); ``keep`` broadcasts to (B, H, T, T)."""
        return super().forward(x, keep, rng=rng)

    def backward(self, dy: np.ndarray, cache: StackCache) -> tuple[np.ndarray, dict]:
        """Return dx (B, T, D) and the gradient of every parameter (eq:chain-backward)."""
        dx, grads = super().backward(dy, cache)
        return dx, grads


class Decoder(Stack):
    """Layers that attend to one source as well. See Stack."""

    kind = DecoderLayer

    def forward(  # type: ignore[override]
        self,
        x: np.ndarray,
        source: np.ndarray,
        keep: np.ndarray | None = None,
        source_keep: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, StackCache]:
        """Map x (B, T, D) and source (B, S, D) to y (B, T, D).

        ``keep`` broadcasts to (B, H, T, T), ``source_keep`` to (B, H, T, S).
        """
        return super().forward(x, source, keep, source_keep, rng=rng)

    def backward(
        self, dy: np.ndarray, cache: StackCache
    ) -> tuple[np.ndarray, np.ndarray, dict]:
        """Return dx, dsource and the gradient of every parameter (eq:encoder-decoder-backward)."""
        dx, dsource, grads = super().backward(dy, cache)
        return dx, dsource, grads
