"""The mean squared error."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_floats, check_scalar


class MeanSquaredErrorCache(NamedTuple):
    error: np.ndarray


def mean_squared_error(
    prediction: np.ndarray, target: np.ndarray
) -> tuple[float, MeanSquaredErrorCache]:
    r"""Average the squared error over every entry (eq:mean-squared-error).

    .. math:: \mathcal{L} = \frac{1}{N} \sum_{n=1}^{N} (y_n - t_n)^2

    Parameters
    ----------
    prediction, target : ndarray (...)
        Both of one shape, with N entries in all.

    Returns
    -------
    loss : scalar
        In the units of the target squared.
    cache : MeanSquaredErrorCache

    Raises
    ------
    ValueError
        If the shapes differ, or the arrays are empty or not of floating-point numbers.

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

    .. math:: \bar{y} = \frac{2}{N} (y - t) \, \bar{\mathcal{L}}

    Parameters
    ----------
    dloss : scalar
        Cotangent of ``loss``; 1 at the end of a model.
    cache : MeanSquaredErrorCache

    Returns
    -------
    dprediction : ndarray (...)

    Raises
    ------
    ValueError
        If ``dloss`` is not one number.

    Source: text 000, section Loss.
    """
    check_scalar("dloss", dloss)
    (error,) = cache
    return error * (2 * dloss / error.size)
