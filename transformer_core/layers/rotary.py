"""Rotary positions of the queries or the keys of a layer of attention."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import DTypeLike

from transformer_core.foundation.checks import (
    check_dtype,
    check_floats,
    check_positive_int,
    check_whole,
)
from transformer_core.layers.layer import Layer
from transformer_core.ops.rotary import (
    RotaryCache,
    rotary,
    rotary_backward,
    rotary_frequencies,
)


class Rotary(Layer):
    """Every pair of entries is turned by its frequency times the position (eq:rotary).

    Parameters
    ----------
    width : int
        d_k, even.
    dtype : NumPy dtype
        Of the layer around it. The frequencies are float64 in all of them.
    halves : bool
        Where the two entries of a pair stand: side by side, or half a width apart.
    base, scaling
        As for ``rotary_frequencies``.
    """

    buffers = ("frequencies",)

    def __init__(
        self,
        width: int,
        dtype: DTypeLike = np.float32,
        halves: bool = False,
        base: float = 10000.0,
        scaling: Mapping | None = None,
    ):
        check_dtype("dtype", dtype)
        self.frequencies = rotary_frequencies(width, base, scaling)
        self.halves = halves

    def forward(self, x: np.ndarray, first: int = 0) -> tuple[np.ndarray, RotaryCache]:
        """Turn x (B, H, T, d_k), whose first position has the number ``first``."""
        check_floats("x", x, "B", "H", "T", 2 * len(self.frequencies))
        check_whole("first", first)
        end = first + x.shape[2]
        check_positive_int("first + T", end)
        positions = np.arange(first, end)
        return rotary(x, positions, self.frequencies, self.halves)

    def backward(self, dy: np.ndarray, cache: RotaryCache) -> tuple[np.ndarray, dict]:
        """Turn dy back (eq:rotary-backward)."""
        return rotary_backward(dy, cache), {}
