"""BERT's pooler: one vector of a whole sequence, from that of its first token."""

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from transformer_core.foundation.checks import check_shape
from transformer_core.foundation.names import join
from transformer_core.layers.layer import Layer
from transformer_core.layers.linear import Linear
from transformer_core.ops.linear import LinearCache
from transformer_core.ops.tanh import TanhCache, tanh, tanh_backward


class PoolerCache(NamedTuple):
    length: int
    dense: LinearCache
    activation: TanhCache


class Pooler(Layer):
    """y = tanh(h_0 W + b), of the vector of the first token (eq:pooler).

    Parameters
    ----------
    width : int
        D.
    rng : numpy.random.Generator
    dtype : NumPy dtype

    Source: Devlin et al. 2019.
    """

    def __init__(
        self, width: int, rng: np.random.Generator, dtype: DTypeLike = np.float32
    ):
        self.dense = Linear(width, width, rng, dtype)

    def forward(self, h: np.ndarray) -> tuple[np.ndarray, PoolerCache]:
        """Map h (B, T, D) to y (B, D)."""
        check_shape("h", h, "B", "T", len(self.dense.weight))
        out, dense_cache = self.dense.forward(h[:, 0])
        y, activation_cache = tanh(out)
        return y, PoolerCache(h.shape[1], dense_cache, activation_cache)

    def backward(self, dy: np.ndarray, cache: PoolerCache) -> tuple[np.ndarray, dict]:
        """Return dh (B, T, D), 0 but at the first token, and the gradients (eq:pooler-backward)."""
        out = tanh_backward(dy, cache.activation)
        dfirst, ddense = self.dense.backward(out, cache.dense)
        dh = np.zeros((len(dfirst), cache.length, dfirst.shape[-1]), dfirst.dtype)
        dh[:, 0] = dfirst
        return dh, join({"dense": ddense})
