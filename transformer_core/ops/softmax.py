"""Softmax along the last axis, with an optional mask."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import (
    broadcasts,
    check_array,
    check_floats,
    check_function,
    check_kind,
)


class SoftmaxCache(NamedTuple):
    weights: np.ndarray


def softmax(
    x: np.ndarray, keep: np.ndarray | None = None
) -> tuple[np.ndarray, SoftmaxCache]:
    r"""Turn each row of scores into weights that sum to 1 (eq:softmax).

    .. math:: a_i = \frac{e^{x_i - m}}{\sum_{j \in \text{keep}} e^{x_j - m}},
              \qquad m = \max_{j \in \text{keep}} x_j

    Masked entries get weight 0. A row that keeps nothing gets the weight 0 everywhere, and so does
    a row of scores that are all -inf, which is another way to hide them.

    Parameters
    ----------
    x : ndarray (..., S)
        Scores.
    keep : ndarray of bool, broadcastable to the shape of ``x``, optional
        True where a score takes part. Default: everywhere.

    Returns
    -------
    weights : ndarray (..., S)
    cache : SoftmaxCache

    Source: text 003, equation 2; text 004, section 7.1.
    """
    check_floats("x", x, ..., "S")
    check_function("x", x, "exp")
    if keep is None:
        weights = shift(x)
    else:
        check_keep(keep, x.shape)
        weights = np.where(keep, x, -np.inf)
        shift(weights, out=weights)
    np.exp(weights, out=weights)
    weights /= total_of(weights)
    return weights, SoftmaxCache(weights)


def softmax_backward(dweights: np.ndarray, cache: SoftmaxCache) -> np.ndarray:
    r"""Backward pass of :func:`softmax` (eq:softmax-backward).

    .. math:: \bar{x}_i = a_i \Bigl(\bar{a}_i - \sum_j \bar{a}_j a_j\Bigr)

    Masked entries have weight 0 and so get the gradient 0.

    Source: text 003, section 1.6, step 2; text 004, section 3.2.
    """
    (weights,) = check_kind("cache", cache, SoftmaxCache)
    check_floats("dweights", dweights, *weights.shape)
    coupling = np.einsum("...j,...j->...", dweights, weights)[..., np.newaxis]
    dx = dweights - coupling
    dx *= weights
    return dx


def log_softmax(x: np.ndarray) -> np.ndarray:
    r"""Give the logarithms of the weights of :func:`softmax` (eq:log-sum-exp-shift).

    .. math:: \ln a_i = x_i - m - \ln \sum_j e^{x_j - m}, \qquad m = \max_j x_j

    They are finite where the weights have underflowed to 0. :func:`cross_entropy` contains this,
    and has the backward pass.

    Parameters
    ----------
    x : ndarray (..., S)
        Scores.

    Returns
    -------
    ndarray (..., S)
        A row of scores that are all -inf gives -inf.
    """
    check_floats("x", x, ..., "S")
    check_function("x", x, "exp")
    z = shift(x)
    z -= np.log(total_of(np.exp(z)))
    return z


def shift(x, out=None):
    """Subtract its maximum from each row, which leaves softmax as it is (eq:softmax-shift)."""
    lowest = np.finfo(x.dtype).min  # stands for the maximum of a row of -inf
    top = x.real.max(axis=-1, keepdims=True, initial=lowest)
    return np.subtract(x, top, out=out)


def total_of(weights):
    """Sum each row of exponentials. A row of zeros gets 1, to be divided by."""
    total = weights.sum(axis=-1, keepdims=True)
    total += total == 0
    return total


def check_keep(keep: np.ndarray, shape: tuple) -> None:
    """Raise ``ValueError`` unless ``keep`` is a boolean mask that broadcasts to ``shape``."""
    check_array("keep", keep)
    if keep.dtype != bool:
        raise ValueError(
            f"keep: expected booleans, True = may attend, got {keep.dtype}"
        )
    if not broadcasts(keep.shape, shape):
        raise ValueError(
            f"keep: expected a shape that broadcasts to {shape}, got {keep.shape}"
        )
