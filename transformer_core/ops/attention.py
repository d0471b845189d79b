"""Scaled dot-product attention."""

from math import sqrt
from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_floats, check_kind
from transformer_core.ops.dropout import DropoutCache, dropout, dropout_backward
from transformer_core.ops.softmax import (
    SoftmaxCache,
    check_keep,
    softmax,
    softmax_backward,
)


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
        \mathbf{S} = \frac{\mathbf{Q} \mathbf{K}^\top}{\sqrt{d_k}}, \qquad
        \mathbf{A} = \operatorname{softmax}(\mathbf{S}), \qquad
        \mathbf{O} = \mathbf{A} \mathbf{V}

    A query that may attend to nothing gets the output 0. In training, dropout may stand between
    the weights and the values (eq:attention-dropout).

    Parameters
    ----------
    query : ndarray (..., T, d_k)
    key : ndarray (..., S, d_k)
    value : ndarray (..., S, d_v)
        For queries (B, H, T, d_k), keys and values may have fewer heads: G, a divisor of H. Each is
        then shared by H / G neighbouring heads of queries, and not copied (eq:grouped-attention).
    keep : ndarray of bool, broadcastable to (..., T, S), optional
        True where a query may attend to a key. Default: everywhere.
    rate : float
        The rate of dropout on the weights, in [0, 1).
    rng : numpy.random.Generator, optional
        Draws what is dropped, in training. Default: evaluation, nothing is.

    Returns
    -------
    output : ndarray (..., T, d_v)
    cache : AttentionCache

    Source: Vaswani et al. 2017; text 003, equations 1 to 3.
    """
    check_floats("query", query, ..., "T", "d_k")
    if shared(query, key):
        return shared_attention(query, key, value, keep, rate, rng)
    check_floats("key", key, *query.shape[:-2], "S", query.shape[-1])
    check_floats("value", value, *key.shape[:-1], "d_v")
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
        \bar{\mathbf{Q}} = \frac{\bar{\mathbf{S}} \mathbf{K}}{\sqrt{d_k}}, \quad
        \bar{\mathbf{K}} = \frac{\bar{\mathbf{S}}^\top \mathbf{Q}}{\sqrt{d_k}}

    Keys and values that heads share get the sum of these (eq:grouped-attention-backward).

    If weights were dropped, the dropped ones make :math:`\bar{\mathbf{V}}`, and
    :math:`\bar{\mathbf{A}}` passes through the same mask (eq:attention-backward-dropout).

    Source: text 003, section 1.6, steps 1 to 3, with equations 10 and 11.
    """
    check_kind("cache", cache, AttentionCache)
    if shared(cache.query, cache.key):
        return shared_attention_backward(doutput, cache)
    query, key, value, weights, softmax_cache, dropout_cache = cache
    check_floats("doutput", doutput, *query.shape[:-1], value.shape[-1])
    dropped = dropout_backward(weights, dropout_cache)  # forward again: the same map
    dvalue = dropped.swapaxes(-1, -2) @ doutput
    ddropped = doutput @ value.swapaxes(-1, -2)
    dweights = dropout_backward(ddropped, dropout_cache)
    dscores = softmax_backward(dweights, softmax_cache)
    dscores *= 1 / sqrt(query.shape[-1])
    return dscores @ key, dscores.swapaxes(-1, -2) @ query, dvalue


def shared(query, key):
    """Tell whether several heads of queries share the heads of keys that are there."""
    return (
        query.ndim >= 4
        and isinstance(key, np.ndarray)
        and key.ndim == query.ndim
        and 0 < key.shape[-3] < query.shape[-3]
        and query.shape[-3] % key.shape[-3] == 0
    )


def shared_attention(query, key, value, keep, rate, rng):
    """Attend with the queries of the heads that share keys one under the other."""
    over = query.shape[:-1]
    if keep is not None:
        check_keep(keep, (*over, key.shape[-2]))
        keep = under(np.broadcast_to(keep, (*over, key.shape[-2])), key)
    output, cache = attention(under(query, key), key, value, keep, rate, rng)
    weights = cache.weights.reshape(*over, -1)
    return output.reshape(*over, -1), cache._replace(query=query, weights=weights)


def shared_attention_backward(doutput, cache):
    """Do the same to the cotangents: what a key gets is the sum over its heads of queries."""
    query, key = cache.query, cache.key
    check_floats("doutput", doutput, *query.shape[:-1], cache.value.shape[-1])
    weights = under(cache.weights, key)
    doutput = under(doutput, key)
    dquery, dkey, dvalue = attention_backward(
        doutput, cache._replace(query=under(query, key), weights=weights)
    )
    return dquery.reshape(query.shape), dkey, dvalue


def under(x, key):
    """Put the rows of heads that share a key one under the other: (B, G, H / G * T, ...)."""
    return x.reshape(*key.shape[:-2], -1, x.shape[-1])
