"""The linear layer, y = x W + b."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_floats, check_kind


class LinearCache(NamedTuple):
    x: np.ndarray
    weight: np.ndarray
    biased: bool = True


def linear(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None
) -> tuple[np.ndarray, LinearCache]:
    r"""Apply the same affine map to every position (eq:linear).

    .. math:: y = x \mathbf{W} + b

    Parameters
    ----------
    x : ndarray (..., D_in)
    weight : ndarray (D_in, D_out)
    bias : ndarray (D_out,), optional
        Default: none, b = 0.

    Returns
    -------
    y : ndarray (..., D_out)
    cache : LinearCache

    Source: text 004, section 3.1.
    """
    check_floats("weight", weight, "D_in", "D_out")
    check_floats("x", x, ..., weight.shape[0])
    y = x.reshape(-1, x.shape[-1]) @ weight
    if bias is not None:
        check_floats("bias", bias, weight.shape[1])
        y = y.astype(np.result_type(y, bias), copy=False)
        y += bias
    return y.reshape(*x.shape[:-1], -1), LinearCache(x, weight, bias is not None)


def linear_backward(
    dy: np.ndarray, cache: LinearCache
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    r"""Backward pass of :func:`linear` (eq:linear-backward).

    .. math::
        \bar{x} = \bar{y} \mathbf{W}^\top, \qquad
        \bar{\mathbf{W}} = \sum_n x_n^\top \bar{y}_n, \qquad
        \bar{b} = \sum_n \bar{y}_n

    The sums run over every position n of every leading axis. Without a bias, its gradient is None.

    Source: text 004, section 3.1.
    """
    x, weight, biased = check_kind("cache", cache, LinearCache)
    check_floats("dy", dy, *x.shape[:-1], weight.shape[1])
    dy_rows = dy.reshape(-1, dy.shape[-1])
    dx = dy_rows @ weight.T
    dweight = x.reshape(-1, x.shape[-1]).T @ dy_rows
    dbias = dy_rows.sum(axis=0) if biased else None
    return dx.reshape(x.shape), dweight, dbias
