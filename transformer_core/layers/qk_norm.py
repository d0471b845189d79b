"""Queries or keys that are normalised, head by head, and then rotated."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from transformer_core.foundation.names import join
from transformer_core.layers.layer import Layer
from transformer_core.layers.rms_norm import RmsNorm
from transformer_core.layers.rotary import Rotary
from transformer_core.ops.rms_norm import RmsNormCache
from transformer_core.ops.rotary import RotaryCache


class QkNormCache(NamedTuple):
    norm: RmsNormCache
    rotary: RotaryCache


class QkNorm(Layer):
    """Each row of each head is normalised (eq:qk-norm), and then turned (eq:rotary).

    Parameters
    ----------
    width : int
        d_k, even.
    dtype : NumPy dtype
    halves, base, scaling
        As for ``Rotary``.
    eps : float
        As for ``RmsNorm``.
    """

    def __init__(
        self,
        width: int,
        dtype: DTypeLike = np.float32,
        halves: bool = False,
        base: float = 10000.0,
        scaling: Mapping | None = None,
        eps: float = 1e-6,
    ):
        self.norm = RmsNorm(width, dtype, eps)
        self.rotary = Rotary(width, dtype, halves, base, scaling)

    def forward(self, x: np.ndarray, first: int = 0) -> tuple[np.ndarray, QkNormCache]:
        """Map x (B, H, T, d_k), whose first position has the number ``first``."""
        x_norm, norm_cache = self.norm.forward(x)
        y, rotary_cache = self.rotary.forward(x_norm, first)
        return y, QkNormCache(norm_cache, rotary_cache)

    def backward(self, dy: np.ndarray, cache: QkNormCache) -> tuple[np.ndarray, dict]:
        """Return dx and the gradient of gamma (eq:qk-norm-backward)."""
        dx_norm, _ = self.rotary.backward(dy, cache.rotary)
        dx, dnorm = self.norm.backward(dx_norm, cache.norm)
        return dx, join({"norm": dnorm})
