"""Scaled dot-product attention, tile by tile: the matrix of scores is never there as a whole."""

from collections.abc import Iterator
from math import prod, sqrt
from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import (
    check_floats,
    check_function,
    check_generator,
    check_kind,
    check_positive_int,
    check_rate,
)
from transformer_core.ops.attention import shared
from transformer_core.ops.dropout import dropout, dropout_backward
from transformer_core.ops.softmax import check_keep

TILE = 128  # positions: the scores of a tile stay in the cache of a processor


class Tiling(NamedTuple):
    """What is cut into tiles: heads that share keys have an axis of their own, (G, H / G)."""

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    keep: np.ndarray | None
    rate: float
    seed: int | None  # of what is dropped; None: nothing is
    tile: int


class TiledAttentionCache(NamedTuple):
    tiling: Tiling
    output: np.ndarray
    log_sum_exp: np.ndarray


class Partial(NamedTuple):
    """Attention to some of the keys, not yet divided (eq:online-softmax)."""

    top: np.ndarray
    total: np.ndarray
    sums: np.ndarray


def tiled_attention(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    keep: np.ndarray | None = None,
    rate: float = 0,
    rng: np.random.Generator | None = None,
    tile: int = TILE,
) -> tuple[np.ndarray, TiledAttentionCache]:
    r"""Attend as :func:`attention` does, in memory that grows with T and S, not with T S.

    The keys come in tiles. After each, a row has its maximum so far, m, its sum of exponentials,
    :math:`\ell`, and its weighted sum of values, u (eq:online-softmax):

    .. math::
        m' = \max\bigl(m, \max_j S_j\bigr), \qquad
        \ell' = e^{m - m'} \ell + \sum_j e^{S_j - m'}, \qquad
        u' = e^{m - m'} u + \sum_j e^{S_j - m'} v_j

    and after the last, its output is :math:`u / \ell`. Tiles in which no query may attend to a
    key are left out.

    Parameters
    ----------
    query, key, value, keep, rate
        As for :func:`attention`.
    rng : numpy.random.Generator, optional
        Gives the seed from which each tile draws what it drops, in both passes; so other entries
        are dropped than by :func:`attention`. Default: evaluation, nothing is.
    tile : int
        How many queries, and how many keys, a tile has at most.

    Returns
    -------
    output : ndarray (..., T, d_v)
    cache : TiledAttentionCache
        Its ``log_sum_exp`` (..., T) is that of each row of scores, -inf where there is no key
        (eq:attention-log-sum-exp).

    Source: Milakov and Gimelshein 2018; Dao et al. 2022.
    """
    tiling = tiling_of(query, key, value, keep, rate, rng, tile)
    output, log_sum_exp = finish(partial_attention(tiling))
    output = output.reshape(*query.shape[:-1], -1)
    log_sum_exp = log_sum_exp.reshape(query.shape[:-1])
    return output, TiledAttentionCache(tiling, output, log_sum_exp)


def tiled_attention_backward(
    doutput: np.ndarray,
    cache: TiledAttentionCache,
    dlog_sum_exp: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Backward pass of :func:`tiled_attention` (eq:tiled-attention-backward).

    Each tile of weights is computed again from the log-sum-exp of its rows:

    .. math::
        \mathbf{A} = e^{\mathbf{S} - \lambda}, \qquad
        c = \operatorname{rowsum}(\bar{\mathbf{O}} \odot \mathbf{O}), \qquad
        \bar{\mathbf{S}}
            = \mathbf{A} \odot \bigl(\bar{\mathbf{A}} - c + \bar{\lambda}\bigr)

    The literature writes L for the log-sum-exp, and D for the coupling c.

    What was dropped is drawn again, from the same seed.

    Parameters
    ----------
    doutput : ndarray (..., T, d_v)
    cache : TiledAttentionCache
    dlog_sum_exp : ndarray (..., T), optional
        Cotangent of ``cache.log_sum_exp``, if the loss depends on it. Default: 0.

    Source: Dao et al. 2022, appendix B.
    """
    tiling, output, log_sum_exp = check_kind("cache", cache, TiledAttentionCache)
    query, key, value, _, rate, _, _ = tiling
    check_floats("doutput", doutput, *output.shape)
    coupling = np.einsum("...i,...i->...", doutput, output)  # c
    if dlog_sum_exp is not None:
        check_floats("dlog_sum_exp", dlog_sum_exp, *log_sum_exp.shape)
        coupling = coupling - dlog_sum_exp
    rows_of = (*query.shape[:-1], -1)
    dtype = np.result_type(query, key, value, doutput)
    doutput = doutput.astype(dtype, copy=False).reshape(rows_of)
    coupling = coupling.reshape(rows_of)
    shift = finite(log_sum_exp.reshape(rows_of))
    dquery, dkey, dvalue = (np.zeros(a.shape, dtype) for a in (query, key, value))
    for rows, columns, scores, rng in tiles(tiling):
        scores -= shift[..., rows, :]
        weights = np.exp(scores, out=scores)
        dropped, mask = dropout(weights, rate, rng)
        doutputs = doutput[..., rows, :]
        ddropped = doutputs @ value[..., columns, :].swapaxes(-1, -2)
        dscores = dropout_backward(ddropped, mask)
        dscores -= coupling[..., rows, :]
        dscores *= weights
        dscores *= 1 / sqrt(query.shape[-1])
        add(dquery[..., rows, :], dscores @ key[..., columns, :])
        add(dkey[..., columns, :], dscores.swapaxes(-1, -2) @ query[..., rows, :])
        add(dvalue[..., columns, :], dropped.swapaxes(-1, -2) @ doutputs)
    return (
        dquery.reshape(*output.shape[:-1], -1),
        dkey.squeeze(-3),
        dvalue.squeeze(-3),
    )


def tiling_of(query, key, value, keep, rate, rng, tile):
    """Check what :func:`attention` is given, and return it ready to be cut into tiles."""
    check_floats("query", query, ..., "T", "d_k")
    check_function("query", query, "exp")
    heads = key.shape[:-2] if shared(query, key) else query.shape[:-2]
    check_floats("key", key, *heads, "S", query.shape[-1])
    check_floats("value", value, *key.shape[:-1], "d_v")
    check_rate("rate", rate)
    check_positive_int("tile", tile)
    sharing = prod(query.shape[:-2]) // prod(heads)
    grouped = (*heads, sharing, query.shape[-2], -1)
    if keep is not None:
        scores = (*query.shape[:-1], key.shape[-2])
        check_keep(keep, scores)
        keep = np.broadcast_to(keep, scores).reshape(grouped)
    return Tiling(
        query.reshape(grouped),
        np.expand_dims(key, -3),
        np.expand_dims(value, -3),
        keep,
        rate,
        seed_of(rng) if rate else None,
        tile,
    )


def seed_of(rng):
    """Draw a whole number, from which every tile has a generator of its own."""
    if rng is None:
        return None
    check_generator("rng", rng)
    return int(rng.random((1, 1), np.float64)[0, 0] * 2**53)


def tiles(tiling: Tiling) -> Iterator[tuple]:
    """Yield rows, columns, scores and generator of each tile that has something to attend to."""
    query, key, _, keep, _, seed, tile = tiling
    for i in range(0, query.shape[-2], tile):
        for j in range(0, key.shape[-2], tile):
            rows, columns = slice(i, i + tile), slice(j, j + tile)
            if keep is not None and not keep[..., rows, columns].any():
                continue
            scores = query[..., rows, :] @ key[..., columns, :].swapaxes(-1, -2)
            scores *= 1 / sqrt(query.shape[-1])
            if keep is not None:
                np.copyto(scores, -np.inf, where=~keep[..., rows, columns])
            rng = None if seed is None else np.random.default_rng((seed, i, j))
            yield rows, columns, scores, rng


def partial_attention(tiling: Tiling) -> Partial:
    """Attend to all keys of a tiling, without the division (eq:online-softmax)."""
    query, key, value, _, rate, _, _ = tiling
    dtype = np.result_type(query, key)
    shape = query.shape[:-1]
    whole = Partial(
        np.full((*shape, 1), -np.inf, dtype).real,
        np.zeros((*shape, 1), dtype),
        np.zeros((*shape, value.shape[-1]), np.result_type(dtype, value)),
    )
    for rows, columns, scores, rng in tiles(tiling):
        top = scores.real.max(axis=-1, keepdims=True)
        scores -= finite(top)
        weights = np.exp(scores, out=scores)
        dropped, _ = dropout(weights, rate, rng)
        total = weights.sum(axis=-1, keepdims=True)
        part = Partial(top, total, dropped @ value[..., columns, :])
        before = Partial(*(array[..., rows, :] for array in whole))
        for array, merged in zip(before, merge(before, part), strict=True):
            array[...] = merged
    return whole


def merge(one: Partial, other: Partial) -> Partial:
    """Attend to the keys of both, each rescaled to the larger maximum (eq:online-softmax)."""
    top = np.maximum(one.top, other.top)
    a, b = (np.exp(part.top - finite(top)) for part in (one, other))
    return Partial(top, a * one.total + b * other.total, a * one.sums + b * other.sums)


def finish(partial: Partial) -> tuple[np.ndarray, np.ndarray]:
    """Divide; return the output, and the log-sum-exp of each row (eq:attention-log-sum-exp)."""
    total = partial.total + (partial.total == 0)  # a row without keys gets 0
    return partial.sums / total, partial.top + np.log(total)


def finite(top):
    """Put 0 in the place of -inf, the maximum of a row without keys."""
    return np.where(top == -np.inf, 0, top)


def add(total, part):
    """Add in place; what heads share gets the sum over them (eq:grouped-attention-backward)."""
    total += part.sum(axis=-3, keepdims=True) if part.shape != total.shape else part
