"""A table with rows for pairs of tokens: what the last two of them say together."""

import numpy as np
from numpy.typing import DTypeLike

from transformer_core.foundation.checks import (
    LARGEST_SIZE,
    check_dtype,
    check_floats,
    check_ids,
    check_positive_int,
    check_shape,
)
from transformer_core.layers.layer import Layer
from transformer_core.ops.embedding import EmbeddingCache, embedding, embedding_backward

FACTOR = 1_000_003  # a prime, far from every power of two


def pair_rows(
    ids: np.ndarray, rows: int, before: np.ndarray | None = None
) -> np.ndarray:
    r"""Return the row of each token and the one before it (B, T) (eq:pair-rows).

    .. math:: r_t = (c \, v_{t-1} + v_t) \bmod R

    c is ``FACTOR``.

    Parameters
    ----------
    ids : ndarray of int (B, T)
    rows : int
        R.
    before : ndarray of int (B,), optional
        The token before the first of each sequence. Default: none, which counts as -1.

    Source: Huang et al. 2025.
    """
    check_shape("ids", ids, "B", "T")
    check_ids("ids", ids, LARGEST_SIZE)
    check_positive_int("rows", rows)
    earlier = np.full(ids.shape, -1, np.int64)
    earlier[:, 1:] = ids[:, :-1]
    if before is not None:
        check_shape("before", before, len(ids))
        check_ids("before", before, LARGEST_SIZE)
        earlier[:, 0] = before
    return (FACTOR * earlier + ids.astype(np.int64)) % rows


class PairTable(Layer):
    """y_t = x_t + P_{r_t}, with a row of the table P for the last two tokens (eq:pair-table).

    The table starts at zero, so that it changes nothing until it has learnt something. Pairs share
    a row if there are more of them than rows.

    Parameters
    ----------
    rows, width : int
        R and D.
    dtype : NumPy dtype

    Source: Huang et al. 2025.
    """

    def __init__(self, rows: int, width: int, dtype: DTypeLike = np.float32):
        check_positive_int("rows", rows)
        check_positive_int("width", width)
        check_dtype("dtype", dtype)
        self.table = np.zeros((rows, width), dtype)

    def forward(
        self, x: np.ndarray, ids: np.ndarray, before: np.ndarray | None = None
    ) -> tuple[np.ndarray, EmbeddingCache]:
        """Map x (B, T, D) and the ids (B, T) that it stands for to y (B, T, D).

        ``before`` (B,) has the tokens before the first ones, see ``pair_rows``.
        """
        numbers = pair_rows(ids, len(self.table), before)
        check_floats("x", x, *ids.shape, self.table.shape[1])
        rows, cache = embedding(numbers, self.table)
        return x + rows, cache

    def backward(
        self, dy: np.ndarray, cache: EmbeddingCache
    ) -> tuple[np.ndarray, dict]:
        """Pass dy on, and sum it over the places of each row (eq:pair-table-backward)."""
        return dy, {"table": embedding_backward(dy, cache)}
