"""Root mean square normalisation over the last axis."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import (
    check_floats,
    check_function,
    check_kind,
    check_positive,
)
from transformer_core.ops.layer_norm import mean


class RmsNormCache(NamedTuple):
    x_hat: np.ndarray
    inv_rms: np.ndarray
    gamma: np.ndarray


def rms_norm(
    x: np.ndarray, gamma: np.ndarray, eps: float = 1e-5
) -> tuple[np.ndarray, RmsNormCache]:
    r"""Give each position mean square 1, then scale it (eq:rms-norm).

    .. math:: \hat{x} = \frac{x}{\sqrt{\operatorname{mean}(x \odot x) + \varepsilon}}, \qquad
              y = \gamma \odot \hat{x}

    with the mean over the D entries of the position.

    Parameters
    ----------
    x : ndarray (..., D)
    gamma : ndarray (D,)
    eps : float
        Added to the mean square; in the units of ``x`` squared.

    Returns
    -------
    y : ndarray (..., D)
    cache : RmsNormCache

    Raises
    ------
    ValueError
        If a mean square is too large for the dtype.

    Source: Zhang & Sennrich 2019.
    """
    check_floats("x", x, ..., "D")
    check_function("x", x, "sqrt")
    check_floats("gamma", gamma, x.shape[-1])
    check_positive("eps", eps)
    mean_square = mean(x, x)
    if (mean_square.real == np.inf).any():
        raise ValueError(
            f"x: expected a mean square within the range of {x.dtype}, got inf"
        )
    inv_rms = 1 / np.sqrt(mean_square + eps)
    x_hat = x * inv_rms
    return gamma * x_hat, RmsNormCache(x_hat, inv_rms, gamma)


def rms_norm_backward(
    dy: np.ndarray, cache: RmsNormCache
) -> tuple[np.ndarray, np.ndarray]:
    r"""Backward pass of :func:`rms_norm` (eq:rms-norm-backward).

    With :math:`g = \bar{y} \odot \gamma`,

    .. math::
        \bar{x} = \frac{1}{\sqrt{\operatorname{mean}(x \odot x) + \varepsilon}}
            \Bigl(g - \hat{x} \operatorname{mean}(g \odot \hat{x})\Bigr), \qquad
        \bar{\gamma} = \sum_n \bar{y}_n \odot \hat{x}_n

    The sum runs over all positions n (eq:rms-norm-backward-parameters). The bracket joins the scale
    and square terms (eq:rms-norm-backward-terms), of which the second comes from the gradient of
    the mean square (eq:rms-norm-backward-square). It is that of :func:`layer_norm` without the mean
    term.

    Source: derived in the book.
    """
    x_hat, inv_rms, gamma = check_kind("cache", cache, RmsNormCache)
    check_floats("dy", dy, *x_hat.shape)
    dgamma = (dy * x_hat).sum(axis=tuple(range(dy.ndim - 1)))

    g = dy * gamma
    square_term = x_hat * mean(g, x_hat)
    dx = inv_rms * (g - square_term)
    return dx, dgamma
