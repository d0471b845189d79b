"""The hyperbolic tangent."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_floats, check_function, check_kind


class TanhCache(NamedTuple):
    y: np.ndarray


def tanh(x: np.ndarray) -> tuple[np.ndarray, TanhCache]:
    r"""Squash each entry to the interval from -1 to 1 (eq:tanh).

    .. math:: y = \tanh x = \frac{e^x - e^{-x}}{e^x + e^{-x}}

    Parameters
    ----------
    x : ndarray (...)

    Returns
    -------
    y : ndarray (...)
    cache : TanhCache

    Source: derived in the book.
    """
    check_floats("x", x, ...)
    check_function("x", x, "tanh")
    y = np.tanh(x)
    return y, TanhCache(y)


def tanh_backward(dy: np.ndarray, cache: TanhCache) -> np.ndarray:
    r"""Backward pass of :func:`tanh`, which needs its output alone (eq:tanh-backward).

    .. math:: \bar{x} = \bar{y} \odot (1 - y^2)

    Source: derived in the book.
    """
    (y,) = check_kind("cache", cache, TanhCache)
    check_floats("dy", dy, *y.shape)
    return dy * (1 - y * y)
