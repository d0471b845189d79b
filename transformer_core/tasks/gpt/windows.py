"""A text in tokens: joined, cut into windows to train on, and measured in bits a byte."""

from collections.abc import Iterator
from itertools import count
from math import log

import numpy as np

from transformer_core.foundation.checks import (
    LARGEST_SIZE,
    check_floats,
    check_ids,
    check_positive_int,
    check_real,
    check_shape,
    check_whole,
)
from transformer_core.models import Gpt
from transformer_core.ops import log_softmax
from transformer_core.tasks.gpt.byte_pairs import END_OF_TEXT, BytePairs


def join_texts(pairs: BytePairs, texts: list[str]) -> np.ndarray:
    """Return the tokens of texts, each after an end of text, and one at the very end."""
    if not isinstance(texts, list):
        raise ValueError(f"texts: expected a list of strings, got {texts!r:.60}")
    end = np.array([pairs.special[END_OF_TEXT]])
    parts = [part for text in texts for part in (end, pairs.encode(text))]
    return np.concatenate([*parts, end]).astype(np.int32)


def token_bytes(pairs: BytePairs) -> np.ndarray:
    """Return how many bytes of a text each token stands for (V,): special ones, for none."""
    special = pairs.special.values()
    return np.array(
        [0 if i in special else len(token) for i, token in enumerate(pairs.tokens)]
    )


def windows(
    ids: np.ndarray, size: int, length: int, seed: int, first: int = 1
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the batches of the steps ``first``, ``first`` + 1, ...: (inputs, targets).

    A target is the token after its input. In every pass over the text its windows come at most
    once, in an order drawn anew, and are cut at other places. A step's batch depends on the seed
    and the step alone.

    Parameters
    ----------
    ids : ndarray of int (N,)
    size, length : int
        B and T.
    seed : int
    first : int
    """
    check_shape("ids", ids, "N")
    check_ids("ids", ids, LARGEST_SIZE)
    check_positive_int("size", size)
    check_positive_int("length", length)
    check_whole("seed", seed)
    check_positive_int("first", first)
    size, length = int(size), int(length)
    whole = (len(ids) - 1) // length - 1  # wherever the first of them begins
    if whole < size:
        raise ValueError(
            f"ids: expected at least {(size + 1) * length + 1} tokens, got {len(ids)}"
        )
    starts, cut = np.arange(0), -1  # of the windows, in the pass of that number
    for step in count(first):
        number, place = divmod(step - 1, whole // size)
        if number != cut:
            rng, cut = np.random.default_rng([seed, 0, number]), number
            starts = rng.integers(length) + length * rng.permutation(whole)
        rows = starts[place * size : (place + 1) * size, np.newaxis]
        batch = ids[rows + np.arange(length + 1)]
        yield batch[:, :-1], batch[:, 1:]


def token_losses(gpt: Gpt, ids: np.ndarray, together: int = 16) -> np.ndarray:
    """Return -ln p of each token of a text but the first (N - 1,), given those before it.

    Windows overlap by half: but for the beginning, a token is scored with at least half a window
    before it.

    Parameters
    ----------
    gpt : Gpt
    ids : ndarray of int (N,)
    together : int
        How many windows are worked on at once.
    """
    check_shape("ids", ids, "N")
    check_positive_int("together", together)
    if len(ids) < 2:
        raise ValueError(f"ids: expected at least 2 tokens, got {len(ids)}")
    length = min(gpt.longest, len(ids) - 1)
    stride = max(length // 2, 1)
    starts = np.append(
        np.arange(0, len(ids) - 1 - length, stride), len(ids) - 1 - length
    )
    losses = np.empty(len(ids) - 1)
    for i in range(0, len(starts), together):
        rows = starts[i : i + together, np.newaxis] + np.arange(length)
        log_p = log_softmax(gpt.forward(ids[rows])[0])
        found = -np.take_along_axis(log_p, ids[rows + 1][..., np.newaxis], axis=-1)
        fresh = rows >= np.where(rows[:, :1] == 0, 0, rows[:, :1] + length - stride)
        losses[rows[fresh]] = found[..., 0][fresh]
    return losses


def bits_per_byte(losses: np.ndarray, ids: np.ndarray, sizes: np.ndarray) -> float:
    r"""Return the bits that a model needs for each byte of a text (eq:bits-per-byte).

    .. math:: \frac{\sum_n -\ln p(t_n \mid t_{<n})}{\ln 2 \; \sum_n \text{bytes}(t_n)}

    It does not depend on how the text is cut into tokens. An end of text has to be told, too, and
    has no bytes.

    Parameters
    ----------
    losses : ndarray (N - 1,)
        In nats, as :func:`token_losses` gives them.
    ids : ndarray of int (N,)
    sizes : ndarray of int (V,)
        As :func:`token_bytes` gives them.
    """
    check_shape("ids", ids, "N")
    check_shape("sizes", sizes, "V")
    check_ids("sizes", sizes, LARGEST_SIZE)
    check_losses("losses", losses, len(ids) - 1)
    check_ids("ids", ids, len(sizes))
    total = sizes[ids[1:]].sum()
    if total == 0:
        raise ValueError("ids: expected tokens that have bytes, got none")
    return float(losses.sum() / log(2) / total)


def mix(one: np.ndarray, other: np.ndarray, weight: float) -> np.ndarray:
    r"""Return -ln of two models' mean probabilities, the first of this weight (eq:mixture).

    .. math:: -\ln \bigl( w \, p_1(t_n) + (1 - w) \, p_2(t_n) \bigr)

    Parameters
    ----------
    one, other : ndarray (N - 1,)
        -ln p of the same tokens.
    weight : float
        w, in (0, 1).

    Source: Jelinek & Mercer 1980.
    """
    check_losses("one", one, "N")
    check_losses("other", other, len(one))
    check_real("weight", weight)
    if not 0 < weight < 1:
        raise ValueError(f"weight: expected a number in (0, 1), got {weight}")
    return -np.logaddexp(log(weight) - one, log(1 - weight) - other)


def best_weight(one: np.ndarray, other: np.ndarray, steps: int = 50) -> float:
    r"""Return the weight of the first of two models with the least mean loss (eq:em).

    .. math:: w \leftarrow \frac{1}{N - 1} \sum_n \frac{w \, p_1(t_n)}
                                                  {w \, p_1(t_n) + (1 - w) \, p_2(t_n)}

    It begins with w = 1/2.

    Parameters
    ----------
    one, other : ndarray (N - 1,)
        -ln p of the same tokens.
    steps : int

    Source: Jelinek & Mercer 1980.
    """
    check_positive_int("steps", steps)
    weight = 0.5
    for _ in range(steps):
        weight *= float(np.exp(mix(one, other, weight) - one).mean())
    return weight


def check_losses(name, losses, *shape):
    """Raise ``ValueError`` unless losses are an array of real floating-point numbers."""
    check_floats(name, losses, *shape)
    if losses.dtype.kind != "f":
        raise ValueError(f"{name}: expected real numbers, got {losses.dtype}")
