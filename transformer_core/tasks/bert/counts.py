"""What counting words achieves: the baselines of masked language modelling."""

import numpy as np

from transformer_core.foundation.checks import (
    check_ids,
    check_positive_int,
    check_reals,
    check_shape,
)
from transformer_core.models.bert import check_masked
from transformer_core.tasks.texts.wordpiece import MASK, SPECIAL_TOKENS


def frequencies(blocks: np.ndarray, vocabulary: int) -> np.ndarray:
    """Return each token's share of the tokens that may be masked, (V,); 0 for special tokens."""
    check_positive_int("vocabulary", vocabulary)
    check_ids("blocks", blocks, vocabulary)
    counts = np.bincount(blocks.ravel(), minlength=vocabulary).astype(np.float64)
    counts[: len(SPECIAL_TOKENS)] = 0
    if not counts.any():
        raise ValueError("blocks: expected tokens, got only special tokens")
    return counts / counts.sum()


def entropy(shares: np.ndarray) -> float:
    r"""Return the entropy :math:`-\sum_v f_v \ln f_v` of shares f, in nats (eq:entropy)."""
    check_shares(shares)
    positive = shares[shares > 0]
    return float(-(positive * np.log(positive)).sum())


def check_shares(shares: np.ndarray) -> None:
    """Raise ``ValueError`` unless shares are at least 0 and finite, and one is positive."""
    check_reals("shares", shares, "V")
    if not (np.isfinite(shares).all() and shares.min() >= 0 and shares.any()):
        raise ValueError(f"shares: expected finite ones from 0 up, got {shares}")


class Trigrams:
    """Guesses a token from its two neighbours, by counting.

    The guess is the token that stood most often between the two neighbours in training. Where
    they never stood around a token, or one is hidden or beyond the end of the block: the token
    that most often followed the left neighbour; else the one that most often preceded the right
    one; else the most frequent.

    Parameters
    ----------
    blocks : ndarray of int (N, T)
    vocabulary : int
        V.
    """

    def __init__(self, blocks: np.ndarray, vocabulary: int):
        check_shape("blocks", blocks, "N", "T")
        check_positive_int("vocabulary", vocabulary)
        check_ids("blocks", blocks, vocabulary)
        left, middle, right = counted(blocks)
        self.vocabulary = vocabulary
        self.between = most_frequent(left * vocabulary + right, middle, vocabulary)
        self.after = most_frequent(left, middle, vocabulary)
        self.before = most_frequent(right, middle, vocabulary)
        self.top = frequencies(blocks, vocabulary).argmax()

    def predict(self, inputs: np.ndarray, masked: np.ndarray) -> np.ndarray:
        """Return a guess for each masked token, in the order of ``inputs[masked]``."""
        check_shape("inputs", inputs, "N", "T")
        check_ids("inputs", inputs, self.vocabulary)
        check_masked(masked, inputs.shape)
        left, right = (part[masked] for part in neighbours(inputs))
        guesses = np.full(len(left), self.top)
        for (known, tokens), keys in (
            (self.before, right),
            (self.after, left),
            (self.between, left * self.vocabulary + right),
        ):
            found = look_up(known, tokens, keys, missing=-1)
            guesses = np.where(found < 0, guesses, found)
        return guesses


def neighbours(ids):
    """Return what stands to the left and to the right of each token; at the ends [MASK]."""
    wider = np.pad(ids.astype(np.int64), ((0, 0), (1, 1)), constant_values=MASK)
    return wider[:, :-2], wider[:, 2:]


def counted(blocks):
    """Return the left neighbour, the token and the right one, where nothing is hidden."""
    left, right = (part.ravel() for part in neighbours(blocks))
    middle = blocks.ravel().astype(np.int64)
    shown = (middle >= len(SPECIAL_TOKENS)) & (left != MASK) & (right != MASK)
    return left[shown], middle[shown], right[shown]


def most_frequent(keys, tokens, vocabulary):
    """Return the different keys, sorted, and the most frequent token of each."""
    pairs, counts = np.unique(keys * vocabulary + tokens, return_counts=True)
    order = np.lexsort((-counts, pairs // vocabulary))  # the most frequent first
    keys, first = np.unique(pairs[order] // vocabulary, return_index=True)
    return keys, pairs[order][first] % vocabulary


def look_up(known, values, wanted, missing=0):
    """Return the value of each wanted entry of a sorted array; or what is said if it is missing."""
    places = np.searchsorted(known, wanted)
    found = np.append(known, -1)[places] == wanted
    return np.where(found, np.append(values, missing)[places], missing)
