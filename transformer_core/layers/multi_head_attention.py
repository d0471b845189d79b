"""Multi-head attention with its parameters."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import (
    check_positive_int,
    check_rate,
    check_shape,
)
from transformer_core.foundation.names import join
from transformer_core.layers.layer import Layer
from transformer_core.layers.linear import Linear
from transformer_core.ops.attention import AttentionCache, attention, attention_backward
from transformer_core.ops.heads import check_heads, merge_heads, split_heads
from transformer_core.ops.linear import LinearCache


class KeyValue(NamedTuple):
    key: np.ndarray  # (B, H, S, K)
    value: np.ndarray


class SelfAttentionCache(NamedTuple):
    query_key_value: LinearCache
    attention: AttentionCache
    output: LinearCache


class CrossAttentionCache(NamedTuple):
    query: LinearCache
    key_value: LinearCache
    attention: AttentionCache
    output: LinearCache


class MultiHeadSelfAttention(Layer):
    """Every position attends to every position of its own sequence, in H heads (eq:multi-head).

    The three projections are one matrix product: columns 0 to D of ``query_key_value`` make the
    queries, D to 2D the keys, 2D to 3D the values.

    Parameters
    ----------
    width : int
        D.
    heads : int
        H, a divisor of D.
    rng : numpy.random.Generator
    dtype : NumPy dtype
    dropout : float
        Rate at which attention weights are dropped in training.
    bias : bool
        False: none of the projections has one.
    """

    def __init__(self, width, heads, rng, dtype=np.float32, dropout=0.0, bias=True):
        check_positive_int("width", width)
        check_heads(width, heads)
        check_rate("dropout", dropout)
        self.heads = heads
        self.dropout = dropout
        self.query_key_value = Linear(width, 3 * width, rng, dtype, bias)
        self.output = Linear(width, width, rng, dtype, bias)
        self.sublayers = {
            "query_key_value": self.query_key_value,
            "output": self.output,
        }

    def forward(self, x, keep=None, rng=None):
        """Map x (B, T, D) to y (B, T, D); ``keep`` broadcasts to (B, H, T, T).

        ``rng`` draws what is dropped in training; None: evaluation.
        """
        projected, projection_cache = self.query_key_value.forward(x)
        parts = np.split(projected, 3, axis=-1)
        context, attention_cache = attend(*parts, self.heads, keep, self.dropout, rng)
        y, output_cache = self.output.forward(context)
        return y, SelfAttentionCache(projection_cache, attention_cache, output_cache)

    def backward(self, dy, cache):
        """Return dx and the gradients (eq:multi-head-backward).

        The last step is eq:attention-backward-input and eq:attention-backward-projections.
        """
        dcontext, doutput = self.output.backward(dy, cache.output)
        dparts = attend_backward(dcontext, self.heads, cache.attention)
        dx, dprojection = self.query_key_value.backward(
            np.concatenate(dparts, axis=-1), cache.query_key_value
        )
        return dx, join({"query_key_value": dprojection, "output": doutput})

    def step(self, x, past):
        """Attend from one new position to those before it and to itself (eq:cached-attention).

        Parameters
        ----------
        x : ndarray (B, 1, D)
        past : KeyValue (B, H, T, K)
            Of the T positions before it.

        Returns
        -------
        y : ndarray (B, 1, D)
        past : KeyValue (B, H, T + 1, K)
        """
        projected, _ = self.query_key_value.forward(x)
        query, *new = split_into_heads(projected, 3, self.heads)
        past = KeyValue(
            *(np.concatenate(pair, 2) for pair in zip(past, new, strict=True))
        )
        context, _ = attention(query, *past)
        y, _ = self.output.forward(merge_heads(context))
        return y, past


class MultiHeadCrossAttention(Layer):
    """Every position attends to every position of another sequence (eq:cross-attention).

    The keys and the values are one matrix product: columns 0 to D of ``key_value`` make the
    keys, D to 2D the values.

    Parameters
    ----------
    width : int
        D, of both sequences.
    heads : int
        H, a divisor of D.
    rng : numpy.random.Generator
    dtype : NumPy dtype
    dropout : float
        Rate at which attention weights are dropped in training.
    bias : bool
        False: none of the projections has one.
    """

    def __init__(self, width, heads, rng, dtype=np.float32, dropout=0.0, bias=True):
        check_positive_int("width", width)
        check_heads(width, heads)
        check_rate("dropout", dropout)
        self.heads = heads
        self.dropout = dropout
        self.query = Linear(width, width, rng, dtype, bias)
        self.key_value = Linear(width, 2 * width, rng, dtype, bias)
        self.output = Linear(width, width, rng, dtype, bias)
        self.sublayers = {
            "query": self.query,
            "key_value": self.key_value,
            "output": self.output,
        }

    def forward(self, x, source, keep=None, rng=None):
        """Map x (B, T, D) and source (B, S, D) to y (B, T, D).

        ``keep`` broadcasts to (B, H, T, S). ``rng`` draws what is dropped in training; None:
        evaluation.
        """
        check_shape("x", x, "B", "T", "D")
        check_shape("source", source, x.shape[0], "S", x.shape[-1])
        query, query_cache = self.query.forward(x)
        key_value, key_value_cache = self.key_value.forward(source)
        key, value = np.split(key_value, 2, axis=-1)
        context, attention_cache = attend(
            query, key, value, self.heads, keep, self.dropout, rng
        )
        y, output_cache = self.output.forward(context)
        return y, CrossAttentionCache(
            query_cache, key_value_cache, attention_cache, output_cache
        )

    def backward(self, dy, cache):
        """Return dx, dsource and the gradients (eq:cross-attention-backward)."""
        dcontext, doutput = self.output.backward(dy, cache.output)
        dquery, *dkey_value = attend_backward(dcontext, self.heads, cache.attention)
        dx, dquery_parameters = self.query.backward(dquery, cache.query)
        dsource, dkey_value_parameters = self.key_value.backward(
            np.concatenate(dkey_value, axis=-1), cache.key_value
        )
        grads = {
            "query": dquery_parameters,
            "key_value": dkey_value_parameters,
            "output": doutput,
        }
        return dx, dsource, join(grads)

    def read(self, source):
        """Return the keys and values of a source (B, S, D), for every ``step`` (a KeyValue)."""
        key_value, _ = self.key_value.forward(source)
        return KeyValue(*split_into_heads(key_value, 2, self.heads))

    def step(self, x, source, keep=None):
        """Attend from one position to a source that has been read (eq:cached-attention).

        Parameters
        ----------
        x : ndarray (B, 1, D)
        source : KeyValue (B, H, S, K)
        keep : ndarray of bool, broadcastable to (B, H, 1, S), optional

        Returns
        -------
        y : ndarray (B, 1, D)
        source : KeyValue
            As it was given.
        """
        query, _ = self.query.forward(x)
        context, _ = attention(split_heads(query, self.heads), *source, keep)
        y, _ = self.output.forward(merge_heads(context))
        return y, source


def attend(query, key, value, heads, keep, rate, rng):
    """Attend in every head by itself: (B, T, D), (B, S, D), (B, S, D) to (B, T, D)."""
    parts = (split_heads(part, heads) for part in (query, key, value))
    context, cache = attention(*parts, keep, rate, rng)
    return merge_heads(context), cache


def attend_backward(dcontext, heads, cache):
    dparts = attention_backward(split_heads(dcontext, heads), cache)
    return [merge_heads(dpart) for dpart in dparts]


def split_into_heads(projected, parts, heads):
    """Cut (B, T, parts * D) into so many arrays (B, H, T, K)."""
    return [split_heads(part, heads) for part in np.split(projected, parts, axis=-1)]
