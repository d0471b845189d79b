"""The contrastive loss: each query is to find its own key among all keys of the batch."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import (
    check_floats,
    check_kind,
    check_positive,
    check_scalar,
)
from transformer_core.ops.cross_entropy import (
    CrossEntropyCache,
    cross_entropy,
    cross_entropy_backward,
)


class ContrastiveLossCache(NamedTuple):
    query: np.ndarray
    key: np.ndarray
    scores: np.ndarray
    temperature: float
    loss: CrossEntropyCache


def contrastive_loss(
    query: np.ndarray, key: np.ndarray, temperature: float
) -> tuple[float, ContrastiveLossCache]:
    r"""Average the surprise of each query at its own key (eq:contrastive-loss).

    .. math::
        s_{ij} = \frac{\langle q_i, k_j \rangle}{\tau}, \qquad
        \mathcal{L} = \frac{1}{B} \sum_i \Bigl(\ln \sum_j e^{s_{ij}} - s_{ii}\Bigr)

    Key i is the right one for query i, all others are its negatives.

    Parameters
    ----------
    query : ndarray (B, D)
        Usually of length 1, see :func:`l2_normalize`.
    key : ndarray (S, D)
        At least B. What comes after the first B is wrong for every query.
    temperature : float
        :math:`\tau`, above 0.

    Returns
    -------
    loss : scalar
        In nats per query. ln S if all keys are alike.
    cache : ContrastiveLossCache

    Raises
    ------
    ValueError
        If there are fewer keys than queries.

    Source: van den Oord et al. 2018, equation 4; Henderson et al. 2017, section 4.4.
    """
    check_floats("query", query, "B", "D")
    check_floats("key", key, "S", query.shape[1])
    check_scalar("temperature", temperature)
    check_positive("temperature", np.real(temperature))
    if len(key) < len(query):
        raise ValueError(
            f"key: expected at least {len(query)}, one for each query, got {len(key)}"
        )
    scores = query @ key.T / temperature
    loss, loss_cache = cross_entropy(scores, np.arange(len(query)))
    return loss, ContrastiveLossCache(query, key, scores, temperature, loss_cache)


def contrastive_loss_backward(
    dloss: float, cache: ContrastiveLossCache
) -> tuple[np.ndarray, np.ndarray, float]:
    r"""Backward pass of :func:`contrastive_loss` (eq:contrastive-loss-backward).

    With :math:`\bar{s}_{ij} = \bar{\mathcal{L}} \, (p_{ij} - [i = j]) / B`,

    .. math::
        \bar{q}_i = \frac{1}{\tau} \sum_j \bar{s}_{ij} k_j, \qquad
        \bar{k}_j = \frac{1}{\tau} \sum_i \bar{s}_{ij} q_i, \qquad
        \bar{\tau} = -\frac{1}{\tau} \sum_{ij} \bar{s}_{ij} s_{ij}

    Source: derived in the book.
    """
    query, key, scores, temperature, loss = check_kind(
        "cache", cache, ContrastiveLossCache
    )
    dscores = cross_entropy_backward(dloss, loss)
    dtemperature = -(dscores * scores).sum() / temperature
    dscores /= temperature
    return dscores @ key, dscores.T @ query, dtemperature
