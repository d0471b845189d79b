"""The Transformer encoder."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_positive_int, check_shape
from transformer_core.foundation.names import join
from transformer_core.layers.encoder_layer import EncoderLayer, EncoderLayerCache
from transformer_core.layers.layer import Layer
from transformer_core.layers.layer_norm import LayerNorm
from transformer_core.layers.linear import Linear
from transformer_core.ops.layer_norm import LayerNormCache
from transformer_core.ops.linear import LinearCache
from transformer_core.ops.mean_squared_error import (
    mean_squared_error,
    mean_squared_error_backward,
)


class EncoderCache(NamedTuple):
    layers: tuple[EncoderLayerCache, ...]
    final_norm: LayerNormCache | None
    readout: LinearCache | None


class Encoder(Layer):
    """L encoder layers, then, where asked for, a final LayerNorm and a linear read-out.

    Parameters
    ----------
    layers, width, heads, hidden_width : int
        L, D, H (a divisor of D) and F.
    norm : {"post", "pre"}
    final_norm, readout : bool
    rng : numpy.random.Generator
    dtype : NumPy dtype
    dropout : float
        Rate, on the attention weights and on the output of every branch.
    activation, attention_bias
        Of every layer, see ``EncoderLayer``.
    """

    def __init__(
        self,
        layers,
        width,
        heads,
        hidden_width,
        *,
        norm,
        final_norm,
        readout,
        rng,
        dtype=np.float32,
        dropout=0.0,
        activation="relu",
        attention_bias=True,
    ):
        check_positive_int("layers", layers)
        self.width = width
        self.layers = [
            EncoderLayer(
                width,
                heads,
                hidden_width,
                norm,
                rng,
                dtype,
                dropout,
                activation,
                attention_bias,
            )
            for _ in range(layers)
        ]
        self.sublayers = {f"layer_{i}": layer for i, layer in enumerate(self.layers)}
        self.final_norm = LayerNorm(width, dtype) if final_norm else None
        if final_norm:
            self.sublayers["final_norm"] = self.final_norm
        self.readout = Linear(width, width, rng, dtype) if readout else None
        if readout:
            self.sublayers["readout"] = self.readout

    def forward(self, x, keep=None, rng=None):
        """Map x (B, T, D) to y (B, T, D); ``keep`` broadcasts to (B, H, T, T).

        ``rng`` draws what is dropped in training; None: evaluation.
        """
        check_shape("x", x, "B", "T", self.width)
        caches = []
        for layer in self.layers:
            x, cache = layer.forward(x, keep, rng)
            caches.append(cache)
        norm_cache = readout_cache = None
        if self.final_norm:
            x, norm_cache = self.final_norm.forward(x)
        if self.readout:
            x, readout_cache = self.readout.forward(x)
        return x, EncoderCache(tuple(caches), norm_cache, readout_cache)

    def backward(self, dy, cache):
        """Return dx (B, T, D) and the gradient of every parameter (eq:chain-backward)."""
        grads = {}
        if self.readout:
            dy, grads["readout"] = self.readout.backward(dy, cache.readout)
        if self.final_norm:
            dy, grads["final_norm"] = self.final_norm.backward(dy, cache.final_norm)
        for i in reversed(range(len(self.layers))):
            dy, grads[f"layer_{i}"] = self.layers[i].backward(dy, cache.layers[i])
        return dy, join(grads)

    def loss_and_gradients(self, inputs, targets, keep=None, rng=None):
        """Return the mean squared error of the outputs and its gradient for every parameter."""
        outputs, cache = self.forward(inputs, keep, rng)
        loss, loss_cache = mean_squared_error(outputs, targets)
        _, grads = self.backward(mean_squared_error_backward(1, loss_cache), cache)
        return loss, grads
