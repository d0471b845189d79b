"""Masked language modelling: blocks of tokens, some of them to be restored."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count

import numpy as np

from transformer_core.foundation.checks import (
    check_ids,
    check_positive_int,
    check_shape,
    check_whole,
    is_real,
)
from transformer_core.tasks.texts.wordpiece import CLS, MASK, SEP, SPECIAL_TOKENS


def pack(documents: Iterable[Sequence[int]], length: int) -> np.ndarray:
    """Cut documents, in their order, into blocks without padding.

    [SEP] stands between two documents. A block is [CLS], T - 2 tokens, [SEP]; a document may go
    on in the next block. What is left in the end, less than a block, is dropped.

    Parameters
    ----------
    documents : list of list of int
        The ids of each.
    length : int
        T, at least 3.

    Returns
    -------
    ndarray of int32 (blocks, T)
    """
    check_positive_int("length", length)
    if length < 3:
        raise ValueError(f"length: expected at least 3, got {length}")
    try:
        joined = list(chain.from_iterable([*ids, SEP] for ids in documents))[:-1]
    except TypeError as error:
        raise ValueError(f"documents: expected lists of ids, got: {error}") from None
    tokens = np.array(joined)
    inside = length - 2
    blocks = len(tokens) // inside
    if not blocks:
        raise ValueError(
            f"documents: expected at least {inside} tokens, got {len(tokens)}"
        )
    check_ids("documents", tokens, 2**31)
    inner = tokens[: blocks * inside].astype(np.int32).reshape(blocks, inside)
    return np.pad(inner, ((0, 0), (1, 1)), constant_values=((0, 0), (CLS, SEP)))


def mask(
    ids: np.ndarray, vocabulary: int, rng: np.random.Generator, share: float = 0.15
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the tokens to restore, and hide most of them (eq:masking).

    Each token is drawn with probability ``share``, special tokens never. Of those drawn, 80 %
    become [MASK], 10 % another token, drawn uniformly from those that are not special, and 10 %
    stay. At least one is drawn.

    Parameters
    ----------
    ids : ndarray of int (B, T)
        Not modified.
    vocabulary : int
        V.
    rng : numpy.random.Generator
    share : float
        In (0, 1].

    Returns
    -------
    inputs : ndarray of int64 (B, T)
        What the model sees.
    masked : ndarray of bool (B, T)
        Where it has to say what was there.

    Source: Devlin et al. 2019.
    """
    specials = len(SPECIAL_TOKENS)
    check_shape("ids", ids, "B", "T")
    check_positive_int("vocabulary", vocabulary)
    check_ids("ids", ids, vocabulary)
    if not is_real(share) or not 0 < share <= 1:
        raise ValueError(f"share: expected a number above 0, up to 1, got {share}")
    candidates = ids >= specials
    if not candidates.any():
        raise ValueError("ids: expected a token to mask, got only special tokens")
    masked = candidates & (rng.random(ids.shape) < share)
    if not masked.any():
        masked.flat[rng.choice(np.flatnonzero(candidates))] = True
    fate = rng.random(ids.shape)
    inputs = ids.astype(np.int64)  # narrow ids may not hold every token
    inputs[masked & (fate < 0.8)] = MASK
    replaced = masked & (fate >= 0.9)
    inputs[replaced] = rng.integers(specials, vocabulary, replaced.sum())
    return inputs, masked


def masked_batches(
    blocks: np.ndarray,
    size: int,
    vocabulary: int,
    seed: int,
    first: int = 1,
    share: float = 0.15,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield the batches of the steps ``first``, ``first`` + 1, ...: (inputs, ids, masked).

    In every pass over the blocks each comes at most once, in an order drawn anew; what is masked
    is drawn anew for every batch. A step's batch depends on the seed and the step alone.

    Parameters
    ----------
    blocks : ndarray of int (N, T)
    size : int
        B, at most N.
    vocabulary : int
        V.
    seed : int
    first : int
    share : float
        See :func:`mask`.
    """
    check_shape("blocks", blocks, "N", "T")
    check_positive_int("size", size)
    check_whole("seed", seed)
    check_positive_int("first", first)
    if size > len(blocks):
        raise ValueError(f"size: expected at most the {len(blocks)} blocks, got {size}")
    steps_of_a_pass = len(blocks) // size
    order, ordered = np.arange(0), -1  # of the blocks, in the pass of that number
    for step in count(first):
        number, place = divmod(step - 1, steps_of_a_pass)
        if number != ordered:
            order = np.random.default_rng([seed, 0, number]).permutation(len(blocks))
            ordered = number
        ids = blocks[order[place * size : (place + 1) * size]]
        rng = np.random.default_rng([seed, 1, step])
        inputs, masked = mask(ids, vocabulary, rng, share)
        yield inputs, ids, masked
