"""A product with two narrow matrices: what LoRA adds to a linear layer."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_floats, check_kind, check_positive


class LowRankCache(NamedTuple):
    x: np.ndarray
    a: np.ndarray
    b: np.ndarray
    narrow: np.ndarray  # x A, (N, r)
    scale: float


def low_rank(
    x: np.ndarray, a: np.ndarray, b: np.ndarray, alpha: float
) -> tuple[np.ndarray, LowRankCache]:
    r"""Map every position to r numbers and from there to the output (eq:low-rank).

    .. math:: y = s \, (x \mathbf{A}) \, \mathbf{B}, \qquad s = \alpha / r

    Parameters
    ----------
    x : ndarray (..., D_in)
    a : ndarray (D_in, r)
    b : ndarray (r, D_out)
    alpha : float
        Positive: the scale at rank 1.

    Returns
    -------
    y : ndarray (..., D_out)
    cache : LowRankCache

    Source: Hu et al. 2022.
    """
    check_floats("a", a, "D_in", "r")
    check_floats("x", x, ..., a.shape[0])
    check_floats("b", b, a.shape[1], "D_out")
    check_positive("alpha", alpha)
    scale = alpha / a.shape[1]
    narrow = x.reshape(-1, x.shape[-1]) @ a
    y = scale * (narrow @ b)
    return y.reshape(*x.shape[:-1], -1), LowRankCache(x, a, b, narrow, scale)


def low_rank_backward(
    dy: np.ndarray, cache: LowRankCache
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Backward pass of :func:`low_rank` (eq:low-rank-backward).

    .. math::
        \bar{u} = s \, \bar{y} \mathbf{B}^\top, \qquad
        \bar{x} = \bar{u} \mathbf{A}^\top, \qquad
        \bar{\mathbf{A}} = \sum_n x_n^\top \bar{u}_n, \qquad
        \bar{\mathbf{B}} = s \sum_n (x_n \mathbf{A})^\top \bar{y}_n

    At :math:`\mathbf{B} = 0` the first three are 0, whatever the loss.

    Source: derived in the book.
    """
    x, a, b, narrow, scale = check_kind("cache", cache, LowRankCache)
    check_floats("dy", dy, *x.shape[:-1], b.shape[1])
    x_rows, dy_rows = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    dnarrow = scale * (dy_rows @ b.T)
    dx = dnarrow @ a.T
    da = x_rows.T @ dnarrow
    db = scale * (narrow.T @ dy_rows)
    return dx.reshape(x.shape), da, db
