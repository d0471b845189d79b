"""Learned positions with their parameters."""

import numpy as np

from transformer_core.foundation.checks import check_positive_int, check_shape
from transformer_core.ops.embedding import embedding, embedding_backward


class LearnedPositions:
    """y_t = x_t + P_t, with a table P that is learnt (eq:learned-positions).

    Parameters
    ----------
    length, width : int
        The longest sequence, and D.
    rng : numpy.random.Generator
    std : float
        Standard deviation of the table at the start, normally distributed. The default is BERT's.
    dtype : NumPy dtype

    Source: seed 004, section 2.1.
    """

    def __init__(self, length, width, rng, std=0.02, dtype=np.float32):
        check_positive_int("length", length)
        check_positive_int("width", width)
        self.table = rng.normal(0, std, (length, width)).astype(dtype)

    def parameters(self):
        return {"table": self.table}

    def forward(self, x):
        """Map x (B, T, D) to y (B, T, D); T must not exceed the table's length."""
        length, width = self.table.shape
        check_shape("x", x, "B", "T", width)
        if x.shape[1] > length:
            raise ValueError(
                f"x: expected at most {length} positions, got {x.shape[1]}"
            )
        rows, cache = embedding(np.arange(x.shape[1]), self.table)
        return x + rows, cache

    def backward(self, dy, cache):
        """Pass dy on, and sum it over the batch (eq:learned-positions-backward)."""
        check_shape("dy", dy, "B", *cache.ids.shape, self.table.shape[1])
        return dy, {"table": embedding_backward(dy.sum(axis=0), cache)}
