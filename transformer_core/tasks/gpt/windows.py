"""A text in tokens: joined, cut into windows to train on, and measured in bits per byte."""

from collections.abc import Iterator
from itertools import accumulate, count
from math import log

import numpy as np

from transformer_core.foundation.checks import (
    LARGEST_SIZE,
    check_floats,
    check_ids,
    check_positive_int,
    check_shape,
    check_whole,
)
from transformer_core.models import Gpt
from transformer_core.ops import log_softmax
from transformer_core.tasks.gpt.byte_pairs import END_OF_TEXT, BytePairs

FORGETTING = 0.9
EDGES = -3, -1, 1, 3  # between the kinds of the recent past, in nats
RECENT = len(EDGES) + 1


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

    It does not depend on how the text is cut into tokens. An end of text has to be predicted, too,
    and has no bytes.

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


def mix(one: np.ndarray, other: np.ndarray, weight: np.ndarray) -> np.ndarray:
    r"""Return -ln of two models' mean probabilities, the first of this weight (eq:mixture).

    .. math:: -\ln \bigl( \lambda_n \, p_1(t_n) + (1 - \lambda_n) \, p_2(t_n) \bigr)

    Parameters
    ----------
    one, other : ndarray (N - 1,)
        -ln p of the same tokens.
    weight : ndarray (N - 1,)
        lambda of each token, in (0, 1).

    Source: Jelinek & Mercer 1980.
    """
    check_losses("one", one, "N")
    check_losses("other", other, len(one))
    check_losses("weight", weight, len(one))
    if not ((weight > 0) & (weight < 1)).all():
        raise ValueError("weight: expected numbers in (0, 1), got others")
    return -np.logaddexp(np.log(weight) - one, np.log1p(-weight) - other)


def recent_kinds(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    r"""Return which of two models has predicted the last tokens better (N - 1,) (eq:recent-odds).

    .. math:: a_1 = 0, \qquad a_{n + 1} = \gamma \, a_n + \ln p_1(t_n) - \ln p_2(t_n)

    The kind is how many of the ``EDGES`` a_n reaches: 0 where the second has been much better.
    gamma is ``FORGETTING``.

    Parameters
    ----------
    one, other : ndarray (N - 1,)
        -ln p of the same tokens.
    """
    check_losses("one", one, "N")
    check_losses("other", other, len(one))
    gains = (other - one).astype(float).tolist()
    odds = accumulate(gains, lambda odds, gain: FORGETTING * odds + gain, initial=0.0)
    return np.digitize([*odds][:-1], EDGES)


def best_weights(
    one: np.ndarray, other: np.ndarray, kinds: np.ndarray, number: int, steps: int = 50
) -> np.ndarray:
    r"""Return the weights (K,) of the first of two models, one per kind (eq:mixture-weights).

    .. math:: \lambda_k \leftarrow \frac{1 + \sum_{n: k_n = k} \lambda_k \, p_1(t_n) / p(t_n)}
                                       {2 + \sum_{n: k_n = k} 1}, \qquad
              p(t_n) = \lambda_{k_n} \, p_1(t_n) + (1 - \lambda_{k_n}) \, p_2(t_n)

    It begins with 1/2, which a kind without tokens keeps.

    Parameters
    ----------
    one, other : ndarray (N - 1,)
        -ln p of the same tokens.
    kinds : ndarray of int (N - 1,)
        k, the kind of the context of each, from 0 to K - 1.
    number : int
        K.
    steps : int

    Source: Jelinek & Mercer 1980.
    """
    check_positive_int("number", number)
    check_positive_int("steps", steps)
    check_losses("one", one, "N")
    check_shape("kinds", kinds, len(one))
    check_ids("kinds", kinds, number)
    weights = np.full(number, 0.5)
    tokens = np.bincount(kinds, minlength=number)
    for _ in range(steps):
        of_each = weights[kinds]
        credit = np.float64(of_each * np.exp(mix(one, other, of_each) - one))
        weights = (1 + np.bincount(kinds, credit, number)) / (2 + tokens)
    return weights


def check_losses(name, losses, *shape):
    """Raise ``ValueError`` unless losses are an array of real floating-point numbers."""
    check_floats(name, losses, *shape)
    if losses.dtype.kind != "f":
        raise ValueError(f"{name}: expected real numbers, got {losses.dtype}")
