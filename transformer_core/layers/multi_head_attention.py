"""Multi-head attention with its parameters."""

from collections.abc import Iterator
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from transformer_core.foundation.checks import (
    check_kind,
    check_positive_int,
    check_rate,
    check_shape,
    check_whole,
)
from transformer_core.foundation.names import join
from transformer_core.layers.attention_spec import AttentionSpec
from transformer_core.layers.layer import Layer
from transformer_core.layers.linear import Linear
from transformer_core.ops.attention import AttentionCache, attention, attention_backward
from transformer_core.ops.heads import merge_heads, split_heads
from transformer_core.ops.linear import LinearCache
from transformer_core.ops.masks import cached_keep, window_keep
from transformer_core.ops.softmax import check_keep
from transformer_core.ops.tiled_attention import (
    TiledAttentionCache,
    tiled_attention,
    tiled_attention_backward,
)


class KeyValue:
    """Keys (B, G, S, d_k) and values (B, G, S, d_v) that later positions attend to.

    They are the front of arrays with room for as many again, so the copying of S steps grows with S
    and not with its square. Extending changes no array that a caller has already been given.

    Parameters
    ----------
    key : ndarray (B, G, S, d_k)
    value : ndarray (B, G, S, d_v)
    """

    def __init__(self, key: np.ndarray, value: np.ndarray):
        if np.shape(key)[:3] != np.shape(value)[:3]:
            raise ValueError(
                f"value: expected shape {np.shape(key)[:3]} and d_v, got {np.shape(value)}"
            )
        for name, array in (("key", key), ("value", value)):
            numbers = isinstance(array, np.ndarray) and array.dtype.kind in "fcO"
            if not numbers or array.ndim != 4:
                raise ValueError(
                    f"{name}: expected floating-point numbers of shape (B, G, S, d_k), got "
                    f"{np.asarray(array).dtype} of {np.shape(array)}"
                )
        self.arrays = key, value
        self.length = key.shape[2]
        self.filled = [self.length]  # of the arrays, which several may share

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.key, self.value))

    @property
    def key(self) -> np.ndarray:
        return self.arrays[0][:, :, : self.length]

    @property
    def value(self) -> np.ndarray:
        return self.arrays[1][:, :, : self.length]

    def extend(self, key: np.ndarray, value: np.ndarray) -> "KeyValue":
        """Return these keys and values with new ones behind them."""
        check_past("past key", self.arrays[0], key)
        check_past("past value", self.arrays[1], value)
        longer, end = copy(self), self.length + key.shape[2]
        dtype = np.result_type(*self.arrays, key, value)
        room = self.arrays[0].shape[2]
        if self.filled[0] > self.length or room < end or dtype != self.arrays[0].dtype:
            longer.arrays = (
                larger(self.key, 2 * end, dtype),
                larger(self.value, 2 * end, dtype),
            )
            longer.filled = [end]
        for array, new in zip(longer.arrays, (key, value), strict=True):
            array[:, :, self.length : end] = new
        longer.filled[0] = longer.length = end
        return longer

    def select(self, rows: np.ndarray) -> "KeyValue":
        """Return those of some sequences, in another order, some of them several times."""
        selected = KeyValue(*(array[rows] for array in self.arrays))
        selected.length, selected.filled = self.length, [self.length]
        return selected

    def first(self, length: int) -> "KeyValue":
        """Return those of the first positions; extending them will copy, and change nothing."""
        check_whole("length", length)
        if length > self.length:
            raise ValueError(
                f"length: expected at most {self.length} positions, got {length}"
            )
        shorter = copy(self)
        shorter.length = length
        return shorter


class SelfAttentionCache(NamedTuple):
    query_key_value: LinearCache
    attention: AttentionCache | TiledAttentionCache
    output: LinearCache
    transforms: tuple = (None, None)


class CrossAttentionCache(NamedTuple):
    query: LinearCache
    key_value: LinearCache
    attention: AttentionCache | TiledAttentionCache
    output: LinearCache
    transforms: tuple = (None, None)


class MultiHeadAttention(Layer):
    """What self-attention and cross-attention share: H heads (eq:multi-head).

    Heads of queries may share heads of keys and values, of which there are G; queries and keys
    may go through a transform, such as a rotation by their positions.

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

    # The linear layers before the heads, by name, and what each of them makes.
    projections: dict[str, tuple[str, ...]]

    def __init__(
        self,
        width: int,
        attention: AttentionSpec | int,
        rng: np.random.Generator,
        dtype: DTypeLike = np.float32,
        dropout: float = 0.0,
    ):
        check_rate("dropout", dropout)
        self.spec = spec = AttentionSpec.of(attention)
        self.heads, self.key_heads = spec.heads, spec.key_heads or spec.heads
        self.dropout = dropout
        key_width, value_width = spec.head_widths(width)
        names = "query", "key", "value"
        widths = dict(zip(names, spec.projected_widths(width), strict=True))
        for name, parts in self.projections.items():
            wide = [widths[part] for part in parts]
            self.edges = [int(edge) for edge in np.cumsum(wide[:-1])]
            layer = Linear(width, sum(wide), rng, dtype, spec.bias)
            setattr(self, name, layer)
        self.output = Linear(spec.heads * value_width, width, rng, dtype, spec.bias)
        self.query_transform = spec.make_transform(key_width, dtype)
        self.key_transform = spec.make_transform(key_width, dtype)

    def split(
        self, x: np.ndarray, heads: int, transform: Any, first: int = 0
    ) -> tuple[np.ndarray, Any]:
        """Cut queries or keys, from position ``first`` on, into heads, and transform them."""
        x = split_heads(x, heads)
        return transform.forward(x, first) if transform else (x, None)

    def attend(self, query, key, value, keep, rng):
        """Attend in each head: (B, T, H*d_k), (B, S, G*d_k), (B, S, G*d_v) to (B, T, D)."""
        query, query_cache = self.split(query, self.heads, self.query_transform)
        key, key_cache = self.split(key, self.key_heads, self.key_transform)
        value = split_heads(value, self.key_heads)
        given = query, key, value, keep, self.dropout, rng
        context, attention_cache = (
            tiled_attention(*given, self.spec.tile)
            if self.spec.tile
            else attention(*given)
        )
        y, output_cache = self.output.forward(merge_heads(context))
        return y, attention_cache, output_cache, (query_cache, key_cache)

    def attend_backward(self, dy, cache):
        """Return the gradients of query, key and value, and those of the parameters behind them."""
        dcontext, doutput = self.output.backward(dy, cache.output)
        dcontext = split_heads(dcontext, self.heads)
        back = tiled_attention_backward if self.spec.tile else attention_backward
        dquery, dkey, dvalue = back(dcontext, cache.attention)
        grads = {"output": doutput}
        if self.query_transform:
            of_query, of_key = cache.transforms
            dquery, grads["query_transform"] = self.query_transform.backward(
                dquery, of_query
            )
            dkey, grads["key_transform"] = self.key_transform.backward(dkey, of_key)
        return [merge_heads(dpart) for dpart in (dquery, dkey, dvalue)], grads

    def attend_step(self, query, past, keep=None, first=0):
        """Attend from position ``first`` on (B, N, H*d_k) to keys and values that are there."""
        query, _ = self.split(query, self.heads, self.query_transform, first)
        context, _ = attention(query, *past, keep)
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

    projections = {"query_key_value": ("query", "key", "value")}
    query_key_value: Linear

    def forward(
        self,
        x: np.ndarray,
        keep: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, SelfAttentionCache]:
        """Map x (B, T, D) to y (B, T, D); ``keep`` broadcasts to (B, H, T, T).

        ``rng`` draws what is dropped in training; None: evaluation.
        """
        check_shape("x", x, "B", "T", "D")
        if self.spec.window:
            keep = self.within(window_keep(x.shape[1], self.spec.window), keep, len(x))
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
        dparts, grads = self.attend_backward(dy, cache)
        dx, dprojection = self.query_key_value.backward(
            np.concatenate(dparts, axis=-1), cache.query_key_value
        )
        return dx, join({"query_key_value": dprojection} | grads)

    def within(self, seen, keep, batch):
        """Return what may be attended to of the keys that are seen (T, S)."""
        if keep is None:
            return seen
        check_keep(keep, (batch, self.heads, *seen.shape))
        return seen & keep

    def begin(self, batch: int) -> KeyValue:
        """Return what ``batch`` sequences attend to before their first position: nothing."""
        check_positive_int("batch", batch)
        weight, shape = self.output.weight, (batch, self.key_heads, 0)
        widths = self.spec.head_widths(weight.shape[1])
        return KeyValue(*(np.zeros((*shape, width), weight.dtype) for width in widths))

    def step(
        self, x: np.ndarray, past: KeyValue, keep: np.ndarray | None = None
    ) -> tuple[np.ndarray, KeyValue]:
        """Attend from each new position to those before it and to itself (eq:cached-attention).

        Parameters
        ----------
        x : ndarray (B, N, D)
            The positions T, ..., T + N - 1, counted from 0.
        past : KeyValue (B, G, T, d_k)
            Of the T positions before them.
        keep : ndarray of bool, broadcastable to (B, H, N, T + N), optional

        Returns
        -------
        y : ndarray (B, N, D)
        past : KeyValue (B, G, T + N, d_k)

        Raises
        ------
        ValueError
            If the past is of other heads.
        """
        check_shape("x", x, "B", "N", "D")
        check_kind("past", past, KeyValue)
        projected, _ = self.query_key_value.forward(x)
        query, key, value = np.split(projected, self.edges, axis=-1)
        key, _ = self.split(key, self.key_heads, self.key_transform, past.length)
        extended = past.extend(key, split_heads(value, self.key_heads))
        window = self.spec.window
        if x.shape[1] > 1 or window:
            seen = cached_keep(past.length, x.shape[1])
            if window:  # the last rows of eq:window-keep
                seen &= ~np.tri(len(seen), len(seen[0]), past.length - window, bool)
            keep = self.within(seen, keep, len(x))
        return self.attend_step(query, extended, keep, past.length), extended


class MultiHeadCrossAttention(MultiHeadAttention):
    """Every position attends to every position of another sequence (eq:cross-attention).

    The keys and the values are one matrix product: the columns of ``key_value`` make the keys,
    then the values, D each unless the heads have other widths.

    Parameters
    ----------
    width, attention, rng, dtype, dropout
        As for ``MultiHeadAttention``; D is the width of both sequences.
    """

    projections = {"query": ("query",), "key_value": ("key", "value")}
    query: Linear
    key_value: Linear

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
        (dquery, *dkey_value), grads = self.attend_backward(dy, cache)
        dx, dquery_parameters = self.query.backward(dquery, cache.query)
        dsource, dkey_value_parameters = self.key_value.backward(
            np.concatenate(dkey_value, axis=-1), cache.key_value
        )
        projections = {"query": dquery_parameters, "key_value": dkey_value_parameters}
        return dx, dsource, join(projections | grads)

    def read(self, source: np.ndarray) -> KeyValue:
        """Return the keys and values of a source (B, S, D), for every ``step``."""
        check_shape("source", source, "B", "S", len(self.key_value.weight))
        key_value, _ = self.key_value.forward(source)
        key, value = np.split(key_value, self.edges, axis=-1)
        key, _ = self.split(key, self.key_heads, self.key_transform)
        return KeyValue(key, split_heads(value, self.key_heads))

    def step(
        self, x: np.ndarray, source: KeyValue, keep: np.ndarray | None = None
    ) -> tuple[np.ndarray, KeyValue]:
        """Attend from N positions to a source that has been read (eq:cached-attention).

        Parameters
        ----------
        x : ndarray (B, N, D)
        source : KeyValue (B, H, S, d_k)
        keep : ndarray of bool, broadcastable to (B, H, N, S), optional

        Returns
        -------
        y : ndarray (B, N, D)
        source : KeyValue
            As it was given.
        """
        check_kind("source", source, KeyValue)
        query, _ = self.query.forward(x)
        return self.attend_step(query, source, keep), source


def check_past(name, old, new):
    """Raise ``ValueError`` unless keys or values, perhaps none, go before new ones."""
    batch, heads, _, width = new.shape
    if old.shape != (batch, heads, old.shape[2], width):
        raise ValueError(
            f"{name}: expected shape ({batch}, {heads}, T, {width}), got {old.shape}"
        )


def larger(array, room, dtype):
    """Return a copy of keys or values with room for so many positions."""
    batch, heads, length, width = array.shape
    copied = np.empty((batch, heads, room, width), dtype)
    copied[:, :, :length] = array
    return copied
