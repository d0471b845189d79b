"""Scaled dot-product attention."""

from math import sqrt
from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_floats
from transformer_core.ops.dropout import DropoutCache, dropout, dropout_backward
from transformer_core.ops.softmax import SoftmaxCache, softmax, softmax_backward


class AttentionCache(NamedTuple):
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    weights: np.ndarray
    softmax: SoftmaxCache
    dropout: DropoutCache = DropoutCache(None, 0)


def attention(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    keep: np.ndarray | None = None,
    rate: float = 0,
    rng: np.random.Generator | None = None,
) -> tuple[np.ndarray, AttentionCache]:
    r"""Average the values, each query with its own weights (eq:attention).

    .. math::
        \mathbf{S} = \frac{\mathbf{Q} \mathbf{K}^\top}{\sqrt{K}}, \qquad
        \mathbf{A} = \operatorname{softmax}(\mathbf{S}), \qquad
        \mathbf{O} = \mathbf{A} \mathbf{V}

    A query that may attend to nothing gets the output 0. In training, dropout may stand between
    the weights and the values (eq:attention-dropout).

    Parameters
    ----------
    query : ndarray (..., T, K)
    key : ndarray (..., S, K)
    value : ndarray (..., S, K_v)
    keep : ndarray of bool, broadcastable to (..., T, S), optional
        True where a query may attend to a key. Default: everywhere.
    rate : float
        Of the dropout on the weights, in [0, 1).
    rng : numpy.random.Generator, optional
        Draws what is dropped, in training. Default: evaluation, nothing is.

    Returns
    -------
    output : ndarray (..., T, K_v)
    cache : AttentionCache

    Raises
    ------
    ValueError
        If the shapes do not fit together, an array is empty or not of floating-point numbers,
        ``keep`` is not a boolean mask, or ``rate`` is not in [0, 1).

    Source: Vaswani et al. 2017; text 003, equations 1 to 3.
    """
    check_floats("query", query, ..., "T", "K")
    check_floats("key", key, *query.shape[:-2], "S", query.shape[-1])
    check_floats("value", value, *key.shape[:-1], "K_v")
    scores = query @ key.swapaxes(-1, -2)
    scores *= 1 / sqrt(query.shape[-1])
    weights, softmax_cache = softmax(scores, keep)
    dropped, dropout_cache = dropout(weights, rate, rng)
    return dropped @ value, AttentionCache(
        query, key, value, weights, softmax_cache, dropout_cache
    )


def attention_backward(
    doutput: np.ndarray, cache: AttentionCache
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Backward pass of :func:`attention` (eq:attention-backward).

    In steps: eq:attention-backward-value, eq:attention-backward-weights,
    eq:attention-backward-scores, eq:attention-backward-query and eq:attention-backward-key.

    .. math::
        \bar{\mathbf{V}} = \mathbf{A}^\top \bar{\mathbf{O}}, \quad
        \bar{\mathbf{A}} = \bar{\mathbf{O}} \mathbf{V}^\top, \quad
        \bar{\mathbf{S}} = \mathbf{A} \odot \bigl(\bar{\mathbf{A}}
            - \operatorname{rowsum}(\bar{\mathbf{A}} \odot \mathbf{A})\bigr), \quad
        \bar{\mathbf{Q}} = \frac{\bar{\mathbf{S}} \mathbf{K}}{\sqrt{K}}, \quad
        \bar{\mathbf{K}} = \frac{\bar{\mathbf{S}}^\top \mathbf{Q}}{\sqrt{K}}

    If weights were dropped, the dropped ones make :math:`\bar{\mathbf{V}}`, and
    :math:`\bar{\mathbf{A}}` passes through the same mask (eq:attention-backward-dropout).

    Parameters
    ----------
    doutput : ndarray (..., T, K_v)
        Cotangent of ``output``.
    cache : AttentionCache

    Returns
    -------
    dquery : ndarray (..., T, K)
    dkey : ndarray (..., S, K)
    dvalue : ndarray (..., S, K_v)

    Raises
    ------
    ValueError
        If ``doutput`` has not the shape of ``output``.

    Source: text 003, section 1.6, steps 1 to 3, with equations 10 and 11.
    """
    query, key, value, weights, softmax_cache, dropout_cache = cache
    check_floats("doutput", doutput, *query.shape[:-1], value.shape[-1])
    dropped = dropout_backward(weights, dropout_cache)  # forward again: the same map
    dvalue = dropped.swapaxes(-1, -2) @ doutput
    ddropped = doutput @ value.swapaxes(-1, -2)
    dweights = dropout_backward(ddropped, dropout_cache)
    dscores = softmax_backward(dweights, softmax_cache)
    dscores *= 1 / sqrt(query.shape[-1])
    return dscores @ key, dscores.swapaxes(-1, -2) @ query, dvalue
