"""The Gaussian error linear unit, exact and with a hyperbolic tangent."""

from math import pi, sqrt
from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_floats, check_function, check_kind

SLOPE = sqrt(2 / pi)
CUBIC = 0.044715
# Of x, x^3, ..., x^13 in eq:gelu-single, fitted to the normal distribution function up to 6.
SINGLE = np.array(
    [
        0.79788494,
        0.036333084,
        -3.2594747e-5,
        -5.5306316e-5,
        3.9647729e-6,
        -1.3226625e-7,
        1.7562767e-9,
    ],
    np.float32,
)
PART = 65_536  # numbers of an array whose intermediates stay in the processor's cache


class GeluCache(NamedTuple):
    x: np.ndarray
    probability: np.ndarray


class GeluTanhCache(NamedTuple):
    x: np.ndarray
    tanh: np.ndarray


def gelu(x: np.ndarray) -> tuple[np.ndarray, GeluCache]:
    r"""Multiply each entry by the normal distribution function at it (eq:gelu).

    .. math:: y = x \, \Phi(x), \qquad
              \Phi(x) = \tfrac{1}{2} \bigl(1 + \operatorname{erf}(x / \sqrt{2})\bigr)

    In single precision :math:`\Phi` is that of (eq:gelu-single). All other numbers need SciPy,
    whose error function takes no long doubles.

    Parameters
    ----------
    x : ndarray (...)

    Returns
    -------
    y : ndarray (...)
    cache : GeluCache

    Source: Hendrycks & Gimpel 2016.
    """
    check_floats("x", x, ...)
    check_function("x", x, "erf")
    if x.dtype.char in "gG":
        raise ValueError(f"x: expected at most 64 bits a number, got {x.dtype}")
    probability = normal_distribution(x)
    return x * probability, GeluCache(x, probability)


def normal_distribution(x: np.ndarray) -> np.ndarray:
    r"""Return the probability that a standard normal number is at most x (eq:gelu-erf).

    In single precision it is, to within 1e-7, part by part of the array (eq:gelu-single)

    .. math:: \Phi(x) \approx \tfrac{1}{2} (1 + \tanh u), \qquad
              u = c_0 x + c_1 x^3 + \dots + c_6 x^{13}

    Source: derived in the book.
    """
    if x.dtype != np.float32:
        from scipy.special import erf

        return (1 + erf(x / sqrt(2))) / 2
    probability = np.empty(x.shape, x.dtype)
    whole, result = x.reshape(-1), probability.reshape(-1)
    for start in range(0, x.size, PART):
        near = np.clip(whole[start : start + PART], -8, 8)  # beyond, it is 0 or 1
        square, u = near * near, result[start : start + PART]
        u[...] = SINGLE[-1]
        for coefficient in SINGLE[-2::-1]:
            u *= square
            u += coefficient
        u *= near
        np.tanh(u, out=u)
        u += 1
        u /= 2
    return probability


def gelu_backward(dy: np.ndarray, cache: GeluCache) -> np.ndarray:
    r"""Backward pass of :func:`gelu` (eq:gelu-backward).

    .. math:: \bar{x} = \bar{y} \odot \bigl(\Phi(x) + x \, \varphi(x)\bigr), \qquad
              \varphi(x) = \frac{e^{-x^2 / 2}}{\sqrt{2 \pi}}

    Source: derived in the book.
    """
    x, probability = check_kind("cache", cache, GeluCache)
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

    Source: Hendrycks & Gimpel 2016.
    """
    check_floats("x", x, ...)
    check_function("x", x, "tanh")
    tanh = np.tanh(SLOPE * (x + CUBIC * x * x * x))
    return x * (1 + tanh) / 2, GeluTanhCache(x, tanh)


def gelu_tanh_backward(dy: np.ndarray, cache: GeluTanhCache) -> np.ndarray:
    r"""Backward pass of :func:`gelu_tanh` (eq:gelu-tanh-backward).

    .. math:: \bar{x} = \bar{y} \odot \tfrac{1}{2} \bigl(1 + \tanh u
              + x \, (1 - \tanh^2 u) \, u'\bigr), \qquad
              u' = \sqrt{2 / \pi} \, \bigl(1 + 3 \cdot 0.044715 \, x^2\bigr)

    Source: derived in the book.
    """
    x, tanh = check_kind("cache", cache, GeluTanhCache)
    check_floats("dy", dy, *x.shape)
    x_slope = x * (
        1 - tanh * tanh
    )  # 0 before x * x overflows, so u' comes in two parts
    return dy * (1 + tanh + SLOPE * (x_slope + 3 * CUBIC * x_slope * x * x)) / 2
