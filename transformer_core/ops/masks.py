"""Masks: who may attend to whom. Boolean, True = may attend."""

import numpy as np

from transformer_core.foundation.checks import (
    check_positive_int,
    check_shape,
    check_whole,
)


def causal_keep(length: int) -> np.ndarray:
    r"""Let each position attend to itself and to those before it (eq:causal-keep).

    .. math:: \text{keep}_{ts} = [s \le t]

    Combine it with other masks by ``&``.

    Parameters
    ----------
    length : int
        T, of the queries and of the keys.

    Returns
    -------
    ndarray of bool (T, T)

    Source: text 003, section 1.3 (decoder stack) and P1.
    """
    check_positive_int("length", length)
    return np.tri(length, dtype=bool)


def padding_keep(lengths: np.ndarray, length: int) -> np.ndarray:
    r"""Let every position attend to the tokens and not to the padding (eq:padding-keep).

    .. math:: \text{keep}_{bs} = [s < n_b], \qquad s = 0, \dots, S - 1

    Parameters
    ----------
    lengths : ndarray of int (B,)
        n, how many tokens each sequence has, 0 to S; the padding follows them.
    length : int
        S, of the padded sequences.

    Returns
    -------
    ndarray of bool (B, 1, 1, S)
        The same for every head and every query.
    """
    check_positive_int("length", length)
    check_shape("lengths", lengths, "B")
    if (
        not np.issubdtype(lengths.dtype, np.integer)
        or lengths.min() < 0
        or lengths.max() > length
    ):
        raise ValueError(
            f"lengths: expected whole numbers from 0 to {length}, got {lengths}"
        )
    return (np.arange(length) < lengths[:, np.newaxis])[:, np.newaxis, np.newaxis]


def window_keep(length: int, window: int) -> np.ndarray:
    r"""Let each position attend to the last w positions, itself included (eq:window-keep).

    .. math:: \text{keep}_{ts} = [t - w < s \le t]

    Parameters
    ----------
    length : int
        T, of the queries and of the keys.
    window : int
        w, at least 1; from T on, it is ``causal_keep``.

    Returns
    -------
    ndarray of bool (T, T)

    Source: Jiang et al. 2023, section 2.
    """
    check_positive_int("window", window)
    keep = causal_keep(length)
    return keep & ~np.tri(length, k=-window, dtype=bool)


def cached_keep(past: int, new: int) -> np.ndarray:
    r"""Let each new position attend to what was read and, causally, to the new (eq:cached-keep).

    .. math:: \text{keep}_{ns} = [s \le T + n], \qquad n = 0, \dots, N - 1

    These are the last N rows of ``causal_keep(past + new)``.

    Parameters
    ----------
    past : int
        T, how many positions have been read; 0 or more.
    new : int
        N, how many are new.

    Returns
    -------
    ndarray of bool (N, T + N)
    """
    check_whole("past", past)
    check_positive_int("new", new)
    check_positive_int("past + new", past + new)
    return np.tri(new, past + new, k=past, dtype=bool)
