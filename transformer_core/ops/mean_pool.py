"""One vector for a sequence: the mean of its rows."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_booleans, check_floats, check_kind


class MeanPoolCache(NamedTuple):
    keep: np.ndarray
    counts: np.ndarray  # of the rows that are kept, at least 1
    width: int


def mean_pool(
    x: np.ndarray, keep: np.ndarray | None = None
) -> tuple[np.ndarray, MeanPoolCache]:
    r"""Average the rows that are kept, sequence by sequence (eq:mean-pool).

    .. math:: y_b = \frac{1}{n_b} \sum_{t \in \text{kept}_b} x_{bt}

    A sequence of which nothing is kept gets 0.

    Parameters
    ----------
    x : ndarray (B, T, D)
    keep : ndarray of bool (B, T), optional
        Default: every row.

    Returns
    -------
    y : ndarray (B, D)
    cache : MeanPoolCache

    Source: Reimers & Gurevych 2019.
    """
    check_floats("x", x, "B", "T", "D")
    if keep is None:
        keep = np.ones(x.shape[:2], bool)
    check_booleans("keep", keep, *x.shape[:2])
    counts = np.maximum(keep.sum(axis=1), 1)[:, np.newaxis]
    y = np.where(keep[..., np.newaxis], x, x.dtype.type(0)).sum(axis=1) / counts
    cache = MeanPoolCache(keep, counts, x.shape[-1])
    return y.astype(x.dtype, copy=False), cache


def mean_pool_backward(dy: np.ndarray, cache: MeanPoolCache) -> np.ndarray:
    r"""Backward pass of :func:`mean_pool` (eq:mean-pool-backward).

    .. math:: \bar{x}_{bt} = \frac{1}{n_b} \, \bar{y}_b \text{ if } t \text{ is kept, else } 0

    Source: derived in the book.
    """
    keep, counts, width = check_kind("cache", cache, MeanPoolCache)
    check_floats("dy", dy, len(keep), width)
    share = (dy / counts).astype(dy.dtype, copy=False)
    return np.where(keep[..., np.newaxis], share[:, np.newaxis], dy.dtype.type(0))
