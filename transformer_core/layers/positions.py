"""Positions: a table that is learnt, and a fixed one."""

import numpy as np
from numpy.typing import DTypeLike

from transformer_core.foundation.checks import (
    check_dtype,
    check_floats,
    check_generator,
    check_not_negative,
    check_positive_int,
    check_whole,
)
from transformer_core.layers.layer import Layer
from transformer_core.ops.embedding import EmbeddingCache, embedding, embedding_backward
from transformer_core.ops.positions import sinusoidal_positions


class LearnedPositions(Layer):
    """y_t = x_t + P_t, with a table P that is learnt (eq:learned-positions).

    Parameters
    ----------
    length, width : int
        The longest sequence, and D.
    rng : numpy.random.Generator
    std : float
        Standard deviation of the initial table, normally distributed. The default is BERT's.
    dtype : NumPy dtype

    Source: text 004, section 2.1.
    """

    def __init__(
        self,
        length: int,
        width: int,
        rng: np.random.Generator,
        std: float = 0.02,
        dtype: DTypeLike = np.float32,
    ):
        check_positive_int("length", length)
        check_positive_int("width", width)
        check_not_negative("std", std)
        check_dtype("dtype", dtype)
        check_generator("rng", rng)
        self.table = rng.normal(0, std, (length, width)).astype(dtype)

    def forward(
        self, x: np.ndarray, first: int = 0
    ) -> tuple[np.ndarray, EmbeddingCache]:
        """Map x (B, T, D), whose first position has the number ``first``, to y (B, T, D)."""
        rows, cache = embedding(numbers(x, first, self.table), self.table)
        return x + rows, cache

    def backward(
        self, dy: np.ndarray, cache: EmbeddingCache
    ) -> tuple[np.ndarray, dict]:
        """Pass dy on, and sum it over the batch (eq:learned-positions-backward)."""
        check_floats("dy", dy, "B", "T", self.table.shape[1])
        return dy, {"table": embedding_backward(dy.sum(axis=0), cache)}


class SinusoidalPositions(Layer):
    """y_t = x_t + P_t, with a table P of sines and cosines that is not learnt (eq:positions).

    Parameters
    ----------
    length, width : int
        The longest sequence, and D, even.
    dtype : NumPy dtype
    """

    buffers = ("table",)

    def __init__(self, length: int, width: int, dtype: DTypeLike = np.float32):
        self.table = sinusoidal_positions(length, width, dtype)

    def forward(self, x: np.ndarray, first: int = 0) -> tuple[np.ndarray, None]:
        """Map x (B, T, D), whose first position has the number ``first``, to y (B, T, D)."""
        return x + self.table[numbers(x, first, self.table)], None

    def backward(self, dy: np.ndarray, cache: None) -> tuple[np.ndarray, dict]:
        """Pass dy on."""
        check_floats("dy", dy, "B", "T", self.table.shape[1])
        return dy, {}


def numbers(x, first, table):
    """Return the numbers of the positions of x (B, T, D); check that the table has them."""
    length, width = table.shape
    check_floats("x", x, "B", "T", width)
    check_whole("first", first)
    end = first + x.shape[1]
    if end > length:
        raise ValueError(f"x: expected at most {length} positions, got {end}")
    return np.arange(first, end)
