"""The rectified linear unit."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_floats, check_kind


class ReluCache(NamedTuple):
    positive: np.ndarray


def relu(x: np.ndarray) -> tuple[np.ndarray, ReluCache]:
    r"""Replace negative entries by 0 (eq:relu).

    .. math:: y = \max(0, x)

    Of a complex number, the real part decides.

    Parameters
    ----------
    x : ndarray (...)

    Returns
    -------
    y : ndarray (...)
    cache : ReluCache

    Source: text 004, section 3.5.
    """
    check_floats("x", x, ...)
    positive = x.real > 0
    y = x * positive if np.iscomplexobj(x) else np.maximum(x, 0)
    return y, ReluCache(positive)


def relu_backward(dy: np.ndarray, cache: ReluCache) -> np.ndarray:
    r"""Backward pass of :func:`relu` (eq:relu-backward).

    .. math:: \bar{x} = \bar{y} \odot [x > 0]

    At x = 0, where there is no derivative, the gradient is 0. An infinite cotangent is multiplied
    by 0 like any other and gives NaN, with NumPy's warning.

    Source: text 004, section 3.5.
    """
    (positive,) = check_kind("cache", cache, ReluCache)
    check_floats("dy", dy, *positive.shape)
    return dy * positive
