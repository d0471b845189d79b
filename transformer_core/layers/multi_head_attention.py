"""Multi-head attention with its parameters."""

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from transformer_core.foundation.checks import check_rate, check_shape
from transformer_core.foundation.names import join
from transformer_core.layers.attention_spec import AttentionSpec
from transformer_core.layers.layer import Layer
from transformer_core.layers.linear import Linear
from transformer_core.ops.attention import AttentionCache, attention, attention_backward
from transformer_core.ops.heads import merge_heads, split_heads
from transformer_core.ops.linear import LinearCache


class KeyValue(NamedTuple):
    key: np.ndarray  # (B, H, S, K)
    value: np.ndarray  # (B, H, S, K_v)


class SelfAttentionCache(NamedTuple):
    query_key_value: LinearCache
    attention: AttentionCache
    output: LinearCache


class CrossAttentionCache(NamedTuple):
    query: LinearCache
    key_value: LinearCache
    attention: AttentionCache
    output: LinearCache


class MultiHeadAttention(Layer):
    """What self-attention and cross-attention share: H heads (eq:multi-head).

    Parameters
    ----------
    width : int
        D, of what is read and of what is written.
    attention : AttentionSpec or int
        The heads; a number alone is H, a divisor of D.
    rng : numpy.random.Generator
    dtype : NumPy dtype
    dropout : float
        Rate at which attention weights are dropped in training.
    """

    def __init__(
        self,
        width: int,
        attention: AttentionSpec | int,
        rng: np.random.Generator,
        dtype: DTypeLike = np.float32,
        dropout: float = 0.0,
    ):
        spec = AttentionSpec.of(attention)
        check_rate("dropout", dropout)
        self.heads = spec.heads
        self.dropout = dropout
        key, value = (spec.heads * w for w in spec.head_widths(width))
        self.add_projections(width, key, value, rng, dtype, spec.bias)
        self.output = Linear(value, width, rng, dtype, spec.bias)

    def add_projections(self, width, key, value, rng, dtype, bias):
        """Add the layers that make queries and keys (H*K wide) and values (H*K_v wide)."""
        raise TypeError("expected self-attention or cross-attention")

    def attend(self, query, key, value, keep, rng):
        """Attend in every head by itself: (B, T, H*K), (B, S, H*K), (B, S, H*K_v) to (B, T, D)."""
        parts = (split_heads(part, self.heads) for part in (query, key, value))
        context, attention_cache = attention(*parts, keep, self.dropout, rng)
        y, output_cache = self.output.forward(merge_heads(context))
        return y, attention_cache, output_cache

    def attend_backward(self, dy, cache):
        """Return the gradients of query, key and value, and those of the output's parameters."""
        dcontext, doutput = self.output.backward(dy, cache.output)
        dparts = attention_backward(split_heads(dcontext, self.heads), cache.attention)
        return [merge_heads(dpart) for dpart in dparts], doutput

    def attend_step(self, query, past, keep=None):
        """Attend from one position (B, 1, H*K) to keys and values that are there."""
        context, _ = attention(split_heads(query, self.heads), *past, keep)
        y, _ = self.output.forward(merge_heads(context))
        return y


class MultiHeadSelfAttention(MultiHeadAttention):
    """Every position attends to every position of its own sequence, in H heads (eq:multi-head).

    The three projections are one matrix product: the columns of ``query_key_value`` make the
    queries, then the keys, then the values, D each unless the heads have other widths.

    Parameters
    ----------
    width, attention, rng, dtype, dropout
        As for ``MultiHeadAttention``.
    """

    def add_projections(self, width, key, value, rng, dtype, bias):
        """Add the layer that makes queries and keys (H*K wide) and values (H*K_v wide)."""
        self.edges = [key, 2 * key]
        self.query_key_value = Linear(width, 2 * key + value, rng, dtype, bias)

    def forward(
        self,
        x: np.ndarray,
        keep: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, SelfAttentionCache]:
        """Map x (B, T, D) to y (B, T, D); ``keep`` broadcasts to (B, H, T, T).

        ``rng`` draws what is dropped in training; None: evaluation.
        """
        projected, projection_cache = self.query_key_value.forward(x)
        query, key, value = np.split(projected, self.edges, axis=-1)
        y, *caches = self.attend(query, key, value, keep, rng)
        return y, SelfAttentionCache(projection_cache, *caches)

    def backward(
        self, dy: np.ndarray, cache: SelfAttentionCache
    ) -> tuple[np.ndarray, dict]:
        """Return dx and the gradients (eq:multi-head-backward).

        The last step is eq:attention-backward-input and eq:attention-backward-projections.
        """
        dparts, doutput = self.attend_backward(dy, cache)
        dx, dprojection = self.query_key_value.backward(
            np.concatenate(dparts, axis=-1), cache.query_key_value
        )
        return dx, join({"query_key_value": dprojection, "output": doutput})

    def step(self, x: np.ndarray, past: KeyValue) -> tuple[np.ndarray, KeyValue]:
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

        Raises
        ------
        ValueError
            If there is more than one new position: each would see those after it; or the past
            is of other heads.
        """
        check_shape("x", x, "B", 1, "D")
        projected, _ = self.query_key_value.forward(x)
        query, *new = np.split(projected, self.edges, axis=-1)
        for name, old, part in zip(past._fields, past, new, strict=True):
            check_past(f"past {name}", old, split_heads(part, self.heads))
        past = KeyValue(
            *(
                np.concatenate([old, split_heads(part, self.heads)], axis=2)
                for old, part in zip(past, new, strict=True)
            )
        )
        return self.attend_step(query, past), past


class MultiHeadCrossAttention(MultiHeadAttention):
    """Every position attends to every position of another sequence (eq:cross-attention).

    The keys and the values are one matrix product: the columns of ``key_value`` make the keys,
    then the values, D each unless the heads have other widths.

    Parameters
    ----------
    width, attention, rng, dtype, dropout
        As for ``MultiHeadAttention``; D is the width of both sequences.
    """

    def add_projections(self, width, key, value, rng, dtype, bias):
        """Add the layers that make queries (H*K wide), and keys and values (H*K_v wide)."""
        self.edges = [key]
        self.query = Linear(width, key, rng, dtype, bias)
        self.key_value = Linear(width, key + value, rng, dtype, bias)

    def forward(
        self,
        x: np.ndarray,
        source: np.ndarray,
        keep: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, CrossAttentionCache]:
        """Map x (B, T, D) and source (B, S, D) to y (B, T, D).

        ``keep`` broadcasts to (B, H, T, S). ``rng`` draws what is dropped in training; None:
        evaluation.
        """
        check_shape("x", x, "B", "T", "D")
        check_shape("source", source, x.shape[0], "S", x.shape[-1])
        query, query_cache = self.query.forward(x)
        key_value, key_value_cache = self.key_value.forward(source)
        key, value = np.split(key_value, self.edges, axis=-1)
        y, *caches = self.attend(query, key, value, keep, rng)
        return y, CrossAttentionCache(query_cache, key_value_cache, *caches)

    def backward(
        self, dy: np.ndarray, cache: CrossAttentionCache
    ) -> tuple[np.ndarray, np.ndarray, dict]:
        """Return dx, dsource and the gradients (eq:cross-attention-backward)."""
        (dquery, *dkey_value), doutput = self.attend_backward(dy, cache)
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

    def read(self, source: np.ndarray) -> KeyValue:
        """Return the keys and values of a source (B, S, D), for every ``step``."""
        key_value, _ = self.key_value.forward(source)
        parts = np.split(key_value, self.edges, axis=-1)
        return KeyValue(*(split_heads(part, self.heads) for part in parts))

    def step(
        self, x: np.ndarray, source: KeyValue, keep: np.ndarray | None = None
    ) -> tuple[np.ndarray, KeyValue]:
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
        return self.attend_step(query, source, keep), source


def check_past(name, old, new):
    """Raise ``ValueError`` unless keys or values, perhaps none, go before new ones."""
    batch, heads, _, width = new.shape
    fits = isinstance(old, np.ndarray) and old.ndim == 4
    if (
        not fits
        or old.shape != (batch, heads, old.shape[2], width)
        or old.dtype.kind not in "fcO"
    ):
        raise ValueError(
            f"{name}: expected floating-point numbers of shape ({batch}, {heads}, T, "
            f"{width}), got {np.asarray(old).dtype} of {np.shape(old)}"
        )
