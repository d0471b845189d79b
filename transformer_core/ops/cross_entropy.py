"""The cross-entropy of softmax(logits) and the right answers."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import (
    check_floats,
    check_function,
    check_ids,
    check_kind,
    check_rate,
    check_reals,
    check_scalar,
    check_shape,
)
from transformer_core.ops.softmax import shift, total_of


class CrossEntropyCache(NamedTuple):
    p: np.ndarray
    targets: np.ndarray
    share: np.ndarray
    smoothing: float = 0


def cross_entropy(
    logits: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray | None = None,
    smoothing: float = 0,
) -> tuple[float, CrossEntropyCache]:
    r"""Average the surprise at the right answers (eq:cross-entropy).

    .. math::
        \mathcal{L} = \sum_n \omega_n \Bigl(\ln \sum_v e^{z_{nv}} - z_{n t_n}\Bigr), \qquad
        \omega_n = \frac{w_n}{\sum_m w_m}

    With label smoothing, a share :math:`\alpha` of what is right is spread over the vocabulary
    (eq:label-smoothing): :math:`(1 - \alpha) z_{n t_n} + \alpha \operatorname{mean}(z_n)`
    takes the place of :math:`z_{n t_n}`.

    Parameters
    ----------
    logits : ndarray (..., V)
        Scores z of the V tokens. -inf rules a token out.
    targets : ndarray of int (...)
        The right token t of each position, 0 to V - 1; also where the weight is 0.
    weights : ndarray (...), optional
        How much each position counts, 0 = not at all: the mask of masked language modelling, or
        ``class_weights[targets]``. Finite, at least 0, and one positive. Default: 1 everywhere.
    smoothing : float
        :math:`\alpha`, in [0, 1).

    Returns
    -------
    loss : scalar
        In nats per counted position.
    cache : CrossEntropyCache
        The probabilities p = softmax(z), the targets, the share w / sum(w) of each position, and
        the smoothing.

    Source: text 003, section 1.4; text 004, section 4; Szegedy et al. 2016 (label smoothing).
    """
    check_floats("logits", logits, ..., "V")
    check_function("logits", logits, "exp")
    check_ids("targets", targets, logits.shape[-1])
    check_shape("targets", targets, *logits.shape[:-1])
    weights = np.ones(targets.shape) if weights is None else weights
    check_weights(weights, targets.shape)
    check_rate("smoothing", smoothing)
    weights = np.divide(weights, weights.max(), dtype=float)  # so that no sum overflows
    share = (weights / weights.sum()).astype(logits.dtype)

    z = shift(logits)
    z_target = np.take_along_axis(z, targets[..., np.newaxis], axis=-1)[..., 0]
    if smoothing:
        z_target *= 1 - smoothing
        z_target += smoothing * z.mean(axis=-1)
    p = np.exp(z, out=z)
    total = total_of(p)
    surprise = np.log(total[..., 0]) - z_target
    loss = (share * np.where(share == 0, 0, surprise)).sum()  # 0, also of infinity
    p /= total
    return loss, CrossEntropyCache(p, targets, share, smoothing)


def cross_entropy_backward(dloss: float, cache: CrossEntropyCache) -> np.ndarray:
    r"""Backward pass of :func:`cross_entropy` (eq:cross-entropy-backward).

    .. math:: \bar{z}_{nv} = \bar{\mathcal{L}} \, \omega_n \bigl(p_{nv} - [v = t_n]\bigr)

    With label smoothing, :math:`(1 - \alpha) [v = t_n] + \alpha / V` takes the place of the
    bracket (eq:label-smoothing-backward).

    Positions that do not count get the gradient 0. At the end of a model the cotangent is 1.

    Source: text 004, section 4.2.
    """
    check_scalar("dloss", dloss)
    p, targets, share, smoothing = check_kind("cache", cache, CrossEntropyCache)
    scale = dloss * share
    dlogits = p * scale[..., np.newaxis]
    if smoothing:
        dlogits -= (smoothing / p.shape[-1] * scale)[..., np.newaxis]
    at_target = (1 - smoothing) * scale
    positions = np.indices(targets.shape, sparse=True)
    dlogits[(*positions, targets)] -= at_target
    return dlogits


def check_weights(weights, shape):
    """Raise ``ValueError`` unless every position's weight is at least 0, and one is positive."""
    check_reals("weights", weights, *shape)
    wrong = weights[~(np.isfinite(weights) & (weights >= 0))]
    if wrong.size:
        raise ValueError(
            f"weights: expected finite numbers of at least 0, got {wrong[0]}"
        )
    if not weights.any():
        raise ValueError("weights: expected at least one counted position, got only 0")
