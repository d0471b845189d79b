"""The sigmoid linear unit."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_floats, check_function, check_kind


class SiluCache(NamedTuple):
    x: np.ndarray
    sigmoid: np.ndarray


def silu(x: np.ndarray) -> tuple[np.ndarray, SiluCache]:
    r"""Weight each entry by the logistic function at it (eq:silu).

    .. math:: y = x \, \sigma(x), \qquad
              \sigma(x) = \frac{1}{1 + e^{-x}} = \tfrac{1}{2} \bigl(1 + \tanh(x / 2)\bigr)

    Parameters
    ----------
    x : ndarray (...)

    Returns
    -------
    y : ndarray (...)
    cache : SiluCache

    Source: Hendrycks & Gimpel 2016.
    """
    check_floats("x", x, ...)
    check_function("x", x, "tanh")
    sigmoid = (1 + np.tanh(x / 2)) / 2  # e^{-x} would overflow
    return x * sigmoid, SiluCache(x, sigmoid)


def silu_backward(dy: np.ndarray, cache: SiluCache) -> np.ndarray:
    r"""Backward pass of :func:`silu` (eq:silu-backward).

    .. math:: \bar{x} = \bar{y} \odot \sigma(x) \bigl(1 + x \, (1 - \sigma(x))\bigr)

    Source: derived in the book.
    """
    x, sigmoid = check_kind("cache", cache, SiluCache)
    check_floats("dy", dy, *x.shape)
    return dy * sigmoid * (1 + x * (1 - sigmoid))
