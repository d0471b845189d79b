"""Scaled dot-product attention."""

from math import sqrt
from typing import NamedTuple

import numpy as np

from transformer_core.checks import check_shape
from transformer_core.ops.softmax import SoftmaxCache, softmax, softmax_backward


class AttentionCache(NamedTuple):
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    weights: np.ndarray


def attention(query, key, value, keep=None):
    r"""Average the values, each query with its own weights (eq:attention).

    .. math::
        \mathbf{S} = \frac{\mathbf{Q} \mathbf{K}^\top}{\sqrt{K}}, \qquad
        \mathbf{A} = \operatorname{softmax}(\mathbf{S}), \qquad
        \mathbf{O} = \mathbf{A} \mathbf{V}

    A query that may attend to nothing gets the output 0.

    Parameters
    ----------
    query : ndarray (..., T, K)
    key : ndarray (..., S, K)
    value : ndarray (..., S, K_v)
    keep : ndarray of bool, broadcastable to (..., T, S), optional
        True where a query may attend to a key. Default: everywhere.

    Returns
    -------
    output : ndarray (..., T, K_v)
    cache : AttentionCache

    Raises
    ------
    ValueError
        If the shapes do not fit together, an array is empty, or ``keep`` is not a boolean mask.

    Source: Vaswani et al. 2017; seed 003, equations 1 to 3.
    """
    check_shape("query", query, ..., "T", "K")
    check_shape("key", key, *query.shape[:-2], "S", query.shape[-1])
    check_shape("value", value, *key.shape[:-1], "K_v")
    scores = query @ key.swapaxes(-1, -2)
    scores *= 1 / sqrt(query.shape[-1])
    weights, _ = softmax(scores, keep)
    return weights @ value, AttentionCache(query, key, value, weights)


def attention_backward(doutput, cache):
    r"""Backward pass of :func:`attention` (eq:attention-backward).

    .. math::
        \bar{\mathbf{V}} = \mathbf{A}^\top \bar{\mathbf{O}}, \quad
        \bar{\mathbf{A}} = \bar{\mathbf{O}} \mathbf{V}^\top, \quad
        \bar{\mathbf{S}} = \mathbf{A} \odot \bigl(\bar{\mathbf{A}}
            - \operatorname{rowsum}(\bar{\mathbf{A}} \odot \mathbf{A})\bigr), \quad
        \bar{\mathbf{Q}} = \frac{\bar{\mathbf{S}} \mathbf{K}}{\sqrt{K}}, \quad
        \bar{\mathbf{K}} = \frac{\bar{\mathbf{S}}^\top \mathbf{Q}}{\sqrt{K}}

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

    Source: seed 003, section 1.6, equations 10 and 11.
    """
    query, key, value, weights = cache
    check_shape("doutput", doutput, *query.shape[:-1], value.shape[-1])
    dvalue = weights.swapaxes(-1, -2) @ doutput
    dweights = doutput @ value.swapaxes(-1, -2)
    dscores = softmax_backward(dweights, SoftmaxCache(weights))
    dscores *= 1 / sqrt(query.shape[-1])
    return dscores @ key, dscores.swapaxes(-1, -2) @ query, dvalue
