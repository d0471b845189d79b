"""Softmax along the last axis, with an optional mask."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_array, check_shape


class SoftmaxCache(NamedTuple):
    weights: np.ndarray


def softmax(x, keep=None):
    r"""Turn each row of scores into weights that sum to 1 (eq:softmax).

    .. math:: a_i = \frac{e^{x_i - m}}{\sum_{j \in \text{keep}} e^{x_j - m}},
              \qquad m = \max_{j \in \text{keep}} x_j

    Masked entries get weight 0. A row that keeps nothing gets the weight 0 everywhere.

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

    Raises
    ------
    ValueError
        If ``x`` is empty, or ``keep`` is not boolean or does not broadcast to the shape of ``x``.

    Source: seed 003, equation 2; seed 004, section 7.1.
    """
    check_shape("x", x, ..., "S")
    if keep is None:
        weights = np.exp(x - x.real.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return weights, SoftmaxCache(weights)

    check_keep(keep, x.shape)
    weights = np.where(keep, x, -np.inf)
    lowest = np.finfo(weights.dtype).min  # stands for the maximum of an empty row
    weights -= weights.real.max(axis=-1, keepdims=True, initial=lowest)
    np.exp(weights, out=weights)
    total = weights.sum(axis=-1, keepdims=True)
    weights /= np.where(total == 0, 1, total)
    return weights, SoftmaxCache(weights)


def softmax_backward(dweights, cache):
    r"""Backward pass of :func:`softmax` (eq:softmax-backward).

    .. math:: \bar{x}_i = a_i \Bigl(\bar{a}_i - \sum_j \bar{a}_j a_j\Bigr)

    Masked entries have weight 0 and so get the gradient 0.

    Parameters
    ----------
    dweights : ndarray (..., S)
        Cotangent of ``weights``.
    cache : SoftmaxCache

    Returns
    -------
    dx : ndarray (..., S)

    Raises
    ------
    ValueError
        If ``dweights`` has not the shape of ``weights``.

    Source: seed 003, section 1.6, step 2; seed 004, section 3.2.
    """
    (weights,) = cache
    check_shape("dweights", dweights, *weights.shape)
    coupling = np.einsum("...j,...j->...", dweights, weights)[..., np.newaxis]
    dx = dweights - coupling
    dx *= weights
    return dx


def check_keep(keep, shape):
    """Raise ``ValueError`` unless ``keep`` is a boolean mask that broadcasts to ``shape``."""
    check_array("keep", keep)
    if keep.dtype != bool:
        raise ValueError(
            f"keep: expected booleans, True = may attend, got {keep.dtype}"
        )
    try:
        fits = np.broadcast_shapes(keep.shape, shape) == tuple(shape)
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"keep: expected a shape that broadcasts to {shape}, got {keep.shape}"
        )
