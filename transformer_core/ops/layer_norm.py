"""Layer normalisation over the last axis."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_shape


class LayerNormCache(NamedTuple):
    x_hat: np.ndarray
    inv_std: np.ndarray
    gamma: np.ndarray


def layer_norm(x, gamma, beta, eps=1e-5):
    r"""Give each position mean 0 and variance 1, then scale and shift it (eq:layer-norm).

    .. math:: \hat{x} = \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}}, \qquad
              y = \gamma \odot \hat{x} + \beta

    with the mean :math:`\mu` and the variance :math:`\sigma^2` of the D entries of the position.

    Parameters
    ----------
    x : ndarray (..., D)
    gamma, beta : ndarray (D,)
        Scale and shift.
    eps : float
        Added to the variance; in the units of ``x`` squared.

    Returns
    -------
    y : ndarray (..., D)
    cache : LayerNormCache

    Raises
    ------
    ValueError
        If the shapes do not fit together, an array is empty or ``eps`` is not positive.

    Source: Ba, Kiros & Hinton 2016; seed 000.
    """
    check_shape("x", x, ..., "D")
    check_shape("gamma", gamma, x.shape[-1])
    check_shape("beta", beta, x.shape[-1])
    if not eps > 0:
        raise ValueError(f"eps: expected a positive number, got {eps}")
    centered = x - x.mean(axis=-1, keepdims=True)
    variance = mean_of_product(centered, centered)
    inv_std = 1 / np.sqrt(variance + eps)
    x_hat = centered
    x_hat *= inv_std
    return gamma * x_hat + beta, LayerNormCache(x_hat, inv_std, gamma)


def layer_norm_backward(dy, cache):
    r"""Backward pass of :func:`layer_norm` (eq:layer-norm-backward).

    With :math:`g = \bar{y} \odot \gamma`,

    .. math::
        \bar{x} = \frac{1}{\sqrt{\sigma^2 + \varepsilon}}
            \Bigl(g - \operatorname{mean}(g)
            - \hat{x} \operatorname{mean}(g \odot \hat{x})\Bigr), \qquad
        \bar{\gamma} = \sum_n \bar{y}_n \odot \hat{x}_n, \qquad
        \bar{\beta} = \sum_n \bar{y}_n

    The means run over the D entries of a position, the sums over all positions n
    (eq:layer-norm-backward-parameters). The bracket joins the scale, mean and variance terms of
    the gradient (eq:layer-norm-backward-terms), the last two of which come from the gradients of
    the mean and the variance (eq:layer-norm-backward-moments).

    Parameters
    ----------
    dy : ndarray (..., D)
        Cotangent of ``y``.
    cache : LayerNormCache

    Returns
    -------
    dx : ndarray (..., D)
    dgamma, dbeta : ndarray (D,)

    Raises
    ------
    ValueError
        If ``dy`` has not the shape of ``y``.

    Source: seed 000 (three terms); seed 004, section 3.3, with gamma moved inside the means.
    """
    x_hat, inv_std, gamma = cache
    check_shape("dy", dy, *x_hat.shape)
    leading = tuple(range(dy.ndim - 1))
    dgamma = (dy * x_hat).sum(axis=leading)
    dbeta = dy.sum(axis=leading)

    g = dy * gamma
    variance_term = x_hat * mean_of_product(g, x_hat)
    mean_term = g.mean(axis=-1, keepdims=True)
    dx = g  # the scale term
    dx -= mean_term
    dx -= variance_term
    dx *= inv_std
    return dx, dgamma, dbeta


def mean_of_product(a, b):
    """Return ``(a * b).mean(axis=-1, keepdims=True)``, without storing the product."""
    total = np.asarray(np.einsum("...d,...d->...", a, b))
    return total[..., np.newaxis] / a.shape[-1]
