"""Attention over a sequence in pieces: keys and values go round, and each rank merges them."""

from typing import Any, NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_floats, check_kind
from transformer_core.ops.softmax import check_keep
from transformer_core.ops.tiled_attention import (
    TILE,
    TiledAttentionCache,
    Tiling,
    finish,
    merge,
    partial_attention,
    tiled_attention_backward,
    tiling_of,
)
from transformer_core.ranks.communicator import Communicator


class RingAttentionCache(NamedTuple):
    tilings: tuple[Tiling, ...]  # by step, with this rank's own keys and values
    output: np.ndarray
    log_sum_exp: np.ndarray


def ring_attention(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    communicator: Communicator,
    keep: np.ndarray | None = None,
    rate: float = 0,
    rng: np.random.Generator | None = None,
    tile: int = TILE,
) -> tuple[np.ndarray, RingAttentionCache]:
    r"""Attend from this rank's queries to the keys of all ranks (eq:ring-attention).

    In step n rank r has the keys and values of rank r - n, and merges what its queries get from
    them with what it has; then it passes them on to rank r + 1. No rank ever holds more keys than
    its own and those of one other.

    Parameters
    ----------
    query : ndarray (..., T / N, d_k)
        Of this rank.
    key : ndarray (..., S / N, d_k)
        Of this rank, as many as every other rank has.
    value : ndarray (..., S / N, d_v)
    communicator : Communicator
        Of N ranks.
    keep : ndarray of bool, broadcastable to (..., T / N, S), optional
        Which keys of all ranks this rank's queries may attend to. Default: all.
    rate, tile
        As for :func:`tiled_attention`.
    rng : numpy.random.Generator, optional
        Of this rank alone, in training. Default: evaluation.

    Returns
    -------
    output : ndarray (..., T / N, d_v)
    cache : RingAttentionCache

    Source: Liu et al. 2023.
    """
    size, rank = communicator.size, communicator.rank
    own = tiling_of(query, key, value, None, rate, None, tile)
    keeps: list = [None] * size
    if keep is not None:
        scores = (*query.shape[:-1], size * key.shape[-2])
        check_keep(keep, scores)
        keeps = np.split(np.broadcast_to(keep, scores), size, axis=-1)
    merged: Any = None
    tilings, pair = [], joined(key, value)
    for step in range(size):
        keys, values = apart(pair, key)
        keep = keeps[rank - step]
        tiling = tiling_of(query, keys, values, keep, rate, rng, tile)
        part = partial_attention(tiling)
        merged = merge(merged, part) if merged else part
        tilings.append(tiling._replace(key=own.key, value=own.value))
        if step < size - 1:
            pair = pass_on(pair, communicator)
    output, log_sum_exp = finish(merged)
    output = output.reshape(*query.shape[:-1], -1)
    log_sum_exp = log_sum_exp.reshape(query.shape[:-1])
    return output, RingAttentionCache(tuple(tilings), output, log_sum_exp)


def ring_attention_backward(
    doutput: np.ndarray, cache: RingAttentionCache, communicator: Communicator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Backward pass of :func:`ring_attention` (eq:ring-attention-backward).

    Keys and values go round once more, and their gradients with them. After N steps these are
    complete, and back on the rank that has the keys.

    Parameters
    ----------
    doutput : ndarray (..., T / N, d_v)
    cache : RingAttentionCache
    communicator : Communicator

    Source: Liu et al. 2023.
    """
    tilings, output, log_sum_exp = check_kind("cache", cache, RingAttentionCache)
    check_floats("doutput", doutput, *output.shape)
    key, value = tilings[0].key, tilings[0].value
    dquery: Any = 0
    dpair: Any = 0
    pair = joined(key, value)
    for step, tiling in enumerate(tilings):
        others_key, others_value = apart(pair, key)
        tiling = tiling._replace(key=others_key, value=others_value)
        part = TiledAttentionCache(tiling, output, log_sum_exp)
        dpart, *dkey_value = tiled_attention_backward(doutput, part)
        dquery = dquery + dpart
        dpair = pass_on(dpair + joined(*dkey_value), communicator)
        if step < len(tilings) - 1:
            pair = pass_on(pair, communicator)
    return dquery, *apart(dpair, key)


def joined(key, value):
    """Put keys and values side by side, to be sent as one array."""
    return np.concatenate([key, value], axis=-1)


def apart(pair, key):
    """Undo :func:`joined`."""
    return np.split(pair, [key.shape[-1]], axis=-1)


def pass_on(array, communicator):
    """Give an array to the next rank; return that of the rank before."""
    size, rank = communicator.size, communicator.rank
    if size == 1:
        return array
    after, before = (rank + 1) % size, (rank - 1) % size
    came = communicator.swap("ring", {after: array}, [before])[before]
    communicator.check_like("ring", array, came.dtype, came.shape, before)
    return came
