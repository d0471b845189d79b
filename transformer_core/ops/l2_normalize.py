"""Vectors of length 1: what is left of a vector is its direction."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_floats, check_function, check_kind


class L2NormalizeCache(NamedTuple):
    y: np.ndarray
    inv_length: np.ndarray  # 0 for a row of zeros


def l2_normalize(x: np.ndarray) -> tuple[np.ndarray, L2NormalizeCache]:
    r"""Give each row the length 1 (eq:l2-normalize).

    .. math:: y = \frac{x}{\lVert x \rVert}, \qquad \lVert x \rVert = \sqrt{\sum_d x_d^2}

    A row of zeros has no direction: it stays 0, and gets the gradient 0.

    Parameters
    ----------
    x : ndarray (..., D)

    Returns
    -------
    y : ndarray (..., D)
    cache : L2NormalizeCache

    Source: Reimers & Gurevych 2019, section 3; derived in the book.
    """
    check_floats("x", x, ..., "D")
    check_function("x", x, "sqrt")
    top = np.abs(x.real).max(axis=-1, keepdims=True)  # so that no square overflows
    zeros = top == 0
    top = top + zeros
    z = x / top
    length = np.sqrt((z * z).sum(axis=-1, keepdims=True)) + zeros
    return z / length, L2NormalizeCache(
        z / length, np.where(zeros, 0, 1 / length / top)
    )


def l2_normalize_backward(dy: np.ndarray, cache: L2NormalizeCache) -> np.ndarray:
    r"""Backward pass of :func:`l2_normalize` (eq:l2-normalize-backward).

    .. math::
        \bar{x} = \frac{1}{\lVert x \rVert}
            \bigl(\bar{y} - y \, \langle y, \bar{y} \rangle\bigr)

    The bracket projects onto what is orthogonal to x: its part along x is what the length took.

    Source: derived in the book.
    """
    y, inv_length = check_kind("cache", cache, L2NormalizeCache)
    check_floats("dy", dy, *y.shape)
    along = y * (y * dy).sum(axis=-1, keepdims=True)
    return inv_length * (dy - along)
