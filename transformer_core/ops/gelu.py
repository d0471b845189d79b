"""The Gaussian error linear unit, exact and with a hyperbolic tangent."""

from math import pi, sqrt
from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_floats

SLOPE = sqrt(2 / pi)
CUBIC = 0.044715


class GeluCache(NamedTuple):
    x: np.ndarray
    probability: np.ndarray


class GeluTanhCache(NamedTuple):
    x: np.ndarray
    tanh: np.ndarray


def gelu(x: np.ndarray) -> tuple[np.ndarray, GeluCache]:
    r"""Weigh each entry by the normal distribution function at it (eq:gelu).

    .. math:: y = x \, \Phi(x), \qquad
              \Phi(x) = \tfrac{1}{2} \bigl(1 + \operatorname{erf}(x / \sqrt{2})\bigr)

    Needs SciPy.

    Parameters
    ----------
    x : ndarray (...)

    Returns
    -------
    y : ndarray (...)
    cache : GeluCache

    Raises
    ------
    ValueError
        If ``x`` is empty or not of floating-point numbers, or of long doubles.

    Source: Hendrycks & Gimpel 2016.
    """
    from scipy.special import erf

    check_floats("x", x, ...)
    if x.dtype.char in "gG":  # long doubles, which SciPy's erf does not take
        raise ValueError(f"x: expected at most 64 bits a number, got {x.dtype}")
    probability = (1 + erf(x / sqrt(2))) / 2
    return x * probability, GeluCache(x, probability)


def gelu_backward(dy: np.ndarray, cache: GeluCache) -> np.ndarray:
    r"""Backward pass of :func:`gelu` (eq:gelu-backward).

    .. math:: \bar{x} = \bar{y} \odot \bigl(\Phi(x) + x \, \varphi(x)\bigr), \qquad
              \varphi(x) = \frac{e^{-x^2 / 2}}{\sqrt{2 \pi}}

    Parameters
    ----------
    dy : ndarray (...)
        Cotangent of ``y``.
    cache : GeluCache

    Returns
    -------
    dx : ndarray (...)

    Raises
    ------
    ValueError
        If ``dy`` has not the shape of ``y``.

    Source: derived in the book.
    """
    x, probability = cache
    check_floats("dy", dy, *x.shape)
    density = np.exp(-x * x / 2) / sqrt(2 * pi)
    return dy * (probability + x * density)


def gelu_tanh(x: np.ndarray) -> tuple[np.ndarray, GeluTanhCache]:
    r"""Approximate :func:`gelu` with a hyperbolic tangent (eq:gelu-tanh).

    .. math:: y = \tfrac{1}{2} x \, (1 + \tanh u), \qquad
              u = \sqrt{2 / \pi} \, \bigl(x + 0.044715 \, x^3\bigr)

    It differs from :func:`gelu` by less than 0.0005 everywhere.

    Parameters
    ----------
    x : ndarray (...)

    Returns
    -------
    y : ndarray (...)
    cache : GeluTanhCache

    Raises
    ------
    ValueError
        If ``x`` is empty or not of floating-point numbers.

    Source: Hendrycks & Gimpel 2016.
    """
    check_floats("x", x, ...)
    tanh = np.tanh(SLOPE * (x + CUBIC * x * x * x))
    return x * (1 + tanh) / 2, GeluTanhCache(x, tanh)


def gelu_tanh_backward(dy: np.ndarray, cache: GeluTanhCache) -> np.ndarray:
    r"""Backward pass of :func:`gelu_tanh` (eq:gelu-tanh-backward).

    .. math:: \bar{x} = \bar{y} \odot \tfrac{1}{2} \bigl(1 + \tanh u
              + x \, (1 - \tanh^2 u) \, u'\bigr), \qquad
              u' = \sqrt{2 / \pi} \, \bigl(1 + 3 \cdot 0.044715 \, x^2\bigr)

    Parameters
    ----------
    dy : ndarray (...)
        Cotangent of ``y``.
    cache : GeluTanhCache

    Returns
    -------
    dx : ndarray (...)

    Raises
    ------
    ValueError
        If ``dy`` has not the shape of ``y``.

    Source: derived in the book.
    """
    x, tanh = cache
    check_floats("dy", dy, *x.shape)
    bend = x * (
        1 - tanh * tanh
    )  # times u' in two parts: it is 0 before x * x overflows
    return dy * (1 + tanh + SLOPE * (bend + 3 * CUBIC * bend * x * x)) / 2
