"""The mean squared error."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_floats, check_kind, check_scalar


class MeanSquaredErrorCache(NamedTuple):
    error: np.ndarray


def mean_squared_error(
    prediction: np.ndarray, target: np.ndarray
) -> tuple[float, MeanSquaredErrorCache]:
    r"""Average the squared error over every entry (eq:mean-squared-error).

    .. math:: \mathcal{L} = \frac{1}{N} \sum_{n=1}^{N} (y_n - y^*_n)^2

    Parameters
    ----------
    prediction, target : ndarray (...)
        Both of one shape, with N entries in all.

    Returns
    -------
    loss : scalar
        In the units of the target squared.
    cache : MeanSquaredErrorCache

    Source: text 000, section Loss.
    """
    check_floats("prediction", prediction, ...)
    check_floats("target", target, *prediction.shape)
    error = prediction - target
    return (error * error).mean(), MeanSquaredErrorCache(error)


def mean_squared_error_backward(
    dloss: float, cache: MeanSquaredErrorCache
) -> np.ndarray:
    r"""Backward pass of :func:`mean_squared_error` (eq:mean-squared-error-backward).

    .. math:: \bar{y} = \frac{2}{N} (y - y^*) \, \bar{\mathcal{L}}

    At the end of a model the cotangent is 1. The gradient of the target is the negative of this
    one, and is not returned.

    Source: text 000, section Loss.
    """
    check_scalar("dloss", dloss)
    (error,) = check_kind("cache", cache, MeanSquaredErrorCache)
    return error * (2 * dloss / error.size)
