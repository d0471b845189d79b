"""The model of the reconstruction task."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.names import join
from transformer_core.layers import Layer, LayerSpec, Linear
from transformer_core.models.stack import Encoder, StackCache
from transformer_core.ops.linear import LinearCache
from transformer_core.ops.mean_squared_error import (
    mean_squared_error,
    mean_squared_error_backward,
)


class ReconstructorCache(NamedTuple):
    encoder: StackCache
    readout: LinearCache | None


class Reconstructor(Layer):
    """An encoder, and where asked for a linear output layer, trained by the mean squared error.

    Parameters
    ----------
    spec : LayerSpec
    layers : int
        L.
    rng : numpy.random.Generator
    final_norm, readout : bool
        Whether there is a normalisation after the last layer, and an output layer D to D after it.
    """

    def __init__(
        self,
        spec: LayerSpec,
        layers: int,
        rng: np.random.Generator,
        final_norm: bool = False,
        readout: bool = True,
    ):
        self.encoder = Encoder(spec, layers, rng, final_norm)
        self.readout = (
            Linear(spec.width, spec.width, rng, spec.dtype) if readout else None
        )

    def forward(
        self,
        x: np.ndarray,
        keep: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, ReconstructorCache]:
        """Map x (B, T, D) to y (B, T, D); ``keep`` and ``rng`` as for :class:`Encoder`."""
        y, encoder_cache = self.encoder.forward(x, keep, rng)
        readout_cache = None
        if self.readout:
            y, readout_cache = self.readout.forward(y)
        return y, ReconstructorCache(encoder_cache, readout_cache)

    def backward(
        self, dy: np.ndarray, cache: ReconstructorCache
    ) -> tuple[np.ndarray, dict]:
        """Return dx (B, T, D) and the gradient of every parameter (eq:chain-backward)."""
        grads = {}
        if self.readout:
            dy, grads["readout"] = self.readout.backward(dy, cache.readout)
        dx, grads["encoder"] = self.encoder.backward(dy, cache.encoder)
        return dx, join(grads)

    def loss_and_gradients(
        self,
        inputs: np.ndarray,
        targets: np.ndarray,
        keep: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[float, dict]:
        """Return the mean squared error of the outputs and its gradient for every parameter."""
        outputs, cache = self.forward(inputs, keep, rng)
        loss, loss_cache = mean_squared_error(outputs, targets)
        _, grads = self.backward(mean_squared_error_backward(1, loss_cache), cache)
        return loss, grads
