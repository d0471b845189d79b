"""Embeddings: the look-up of rows, and the output layer that shares its table."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_floats, check_ids, check_kind
from transformer_core.ops.linear import LinearCache, linear, linear_backward


class EmbeddingCache(NamedTuple):
    ids: np.ndarray
    table: np.ndarray


def embedding(ids: np.ndarray, table: np.ndarray) -> tuple[np.ndarray, EmbeddingCache]:
    r"""Look up one row of the table for each id (eq:embedding).

    .. math:: x_n = \mathbf{E}_{v_n}

    Parameters
    ----------
    ids : ndarray of int (...)
        From 0 to V - 1. NumPy would read -1 as the last row; here it is an error.
    table : ndarray (V, D)

    Returns
    -------
    rows : ndarray (..., D)
    cache : EmbeddingCache

    Source: text 003, section 1.2; text 004, section 2.1.
    """
    check_floats("table", table, "V", "D")
    check_ids("ids", ids, len(table))
    return table[ids], EmbeddingCache(ids, table)


def embedding_backward(drows: np.ndarray, cache: EmbeddingCache) -> np.ndarray:
    r"""Backward pass of :func:`embedding` (eq:embedding-backward).

    .. math:: \bar{\mathbf{E}}_v = \sum_{n : v_n = v} \bar{x}_n

    A row that was not looked up gets 0. The ids have no gradient.
    """
    ids, table = check_kind("cache", cache, EmbeddingCache)
    check_floats("drows", drows, *ids.shape, table.shape[1])
    dtable = np.zeros(table.shape, drows.dtype)
    add_rows(dtable, ids, drows)  # dtable[ids] += drows would drop repeated ids
    return dtable


def tied_readout(
    h: np.ndarray, table: np.ndarray, bias: np.ndarray | None
) -> tuple[np.ndarray, LinearCache]:
    r"""Score every token by its row of the embedding table (eq:tied-readout).

    .. math:: z = h \mathbf{E}^\top + b

    Parameters
    ----------
    h : ndarray (..., D)
    table : ndarray (V, D)
        The table of :func:`embedding`.
    bias : ndarray (V,), or None
        None: there is no b.

    Returns
    -------
    logits : ndarray (..., V)
    cache : LinearCache

    Source: text 003, section 1.3 (readout); Press & Wolf 2017.
    """
    check_floats("table", table, "V", "D")
    check_floats("h", h, ..., table.shape[1])
    if bias is not None:
        check_floats("bias", bias, len(table))
    return linear(h, table.T, bias)


def tied_readout_backward(
    dlogits: np.ndarray, cache: LinearCache
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    r"""Backward pass of :func:`tied_readout` (eq:tied-readout-backward).

    .. math::
        \bar{h} = \bar{z} \mathbf{E}, \qquad
        \bar{\mathbf{E}} = \sum_n \bar{z}_n^\top h_n, \qquad
        \bar{b} = \sum_n \bar{z}_n

    The table is looked up as well: add ``dtable`` to the one of :func:`embedding_backward`
    (eq:tied-embedding-backward).
    """
    dh, dweight, dbias = linear_backward(dlogits, cache)
    return dh, dweight.T, dbias


def add_rows(table: np.ndarray, ids: np.ndarray, rows: np.ndarray) -> None:
    """Do what ``np.add.at(table, ids, rows)`` does, which is fast for single entries only."""
    if not table.flags.c_contiguous:  # then reshape may copy
        np.add.at(table, ids, rows)
        return
    width = table.shape[1]
    entries = ids.astype(np.intp)[..., np.newaxis] * width + np.arange(width)
    np.add.at(table.reshape(-1), entries.ravel(), rows.ravel())
