"""What BERT's head does to each vector before it is read out."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.names import join
from transformer_core.layers.feed_forward import ACTIVATIONS
from transformer_core.layers.layer import Layer
from transformer_core.layers.linear import Linear
from transformer_core.layers.spec import LayerSpec
from transformer_core.ops.linear import LinearCache


class HeadTransformCache(NamedTuple):
    dense: LinearCache
    activation: tuple
    norm: tuple


class HeadTransform(Layer):
    """y = LN(f(h W + b)), the same at every position (eq:head-transform).

    Parameters
    ----------
    spec : LayerSpec
        Of the model's layers: their width, activation and norm. A gated feed-forward layer has no
        activation of its own, and is refused.
    rng : numpy.random.Generator

    Source: Devlin et al. 2019.
    """

    def __init__(self, spec: LayerSpec, rng: np.random.Generator):
        if spec.feed_forward not in ACTIVATIONS:
            raise ValueError(
                f"feed_forward: expected one of {', '.join(ACTIVATIONS)} before a transform, "
                f"got {spec.feed_forward!r}"
            )
        self.activate, self.activate_backward = ACTIVATIONS[spec.feed_forward]
        self.dense = Linear(spec.width, spec.width, rng, spec.dtype)
        self.norm = spec.make_norm()

    def forward(self, h: np.ndarray) -> tuple[np.ndarray, HeadTransformCache]:
        """Map h (..., D) to y (..., D)."""
        out, dense_cache = self.dense.forward(h)
        active, activation_cache = self.activate(out)
        y, norm_cache = self.norm.forward(active)
        return y, HeadTransformCache(dense_cache, activation_cache, norm_cache)

    def backward(
        self, dy: np.ndarray, cache: HeadTransformCache
    ) -> tuple[np.ndarray, dict]:
        """Return dh (..., D) and the gradients (eq:head-transform-backward)."""
        grads = {}
        dactive, grads["norm"] = self.norm.backward(dy, cache.norm)
        dout = self.activate_backward(dactive, cache.activation)
        dh, grads["dense"] = self.dense.backward(dout, cache.dense)
        return dh, join(grads)
