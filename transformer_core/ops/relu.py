"""The rectified linear unit."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_array, check_shape


class ReluCache(NamedTuple):
    positive: np.ndarray


def relu(x):
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

    Raises
    ------
    ValueError
        If ``x`` is empty.

    Source: seed 004, section 3.5.
    """
    check_array("x", x)
    positive = x.real > 0
    return x * positive, ReluCache(positive)


def relu_backward(dy, cache):
    r"""Backward pass of :func:`relu` (eq:relu-backward).

    .. math:: \bar{x} = \bar{y} \odot [x > 0]

    At x = 0, where there is no derivative, the gradient is 0.

    Parameters
    ----------
    dy : ndarray (...)
        Cotangent of ``y``.
    cache : ReluCache

    Returns
    -------
    dx : ndarray (...)

    Raises
    ------
    ValueError
        If ``dy`` has not the shape of ``y``.

    Source: seed 004, section 3.5.
    """
    (positive,) = cache
    check_shape("dy", dy, *positive.shape)
    return dy * positive
