"""A counting model with probabilities: the baseline of masked words that has a loss."""

import numpy as np

from transformer_core.foundation.checks import (
    check_ids,
    check_positive_int,
    check_reals,
    check_shape,
)
from transformer_core.models.bert import check_masked
from transformer_core.tasks.bert.counts import counted, frequencies, look_up, neighbours
from transformer_core.tasks.bert.masking import mask
from transformer_core.tasks.texts.wordpiece import SPECIAL_TOKENS

SPECIALS = len(SPECIAL_TOKENS)
PARTS = ("uniform", "frequency", "after", "before", "between", "itself")
STRETCH = 50  # blocks in a row that are counted, or that the weights are fitted on
TOGETHER = 256  # rows of probabilities that are in memory at once


class Interpolated:
    r"""Gives a masked token's probabilities by counting (eq:interpolated).

    .. math:: p(w) = \sum_k \lambda_{ck}\, p_k(w)

    The parts :math:`p_k`, in the order of ``PARTS``: all tokens alike; their frequencies; how
    often each followed the left neighbour, preceded the right one, stood between the two; and
    the token that is seen in the place itself. The weights :math:`\lambda_{ck} \ge 0` sum to 1
    over k. They depend on the case c: whether each of the three sources of the last four parts is
    known, and how often the pair of neighbours has been counted (0, 1, 2 to 3, 4 to 7, more).

    Parameters
    ----------
    blocks : ndarray of int (N, T)
        What is counted.
    vocabulary : int
        V.
    weights : ndarray (2, 2, 2, 5, 6), optional
        By left neighbour known, right one known, token seen, count of the pair, part. Default:
        all known parts alike.
    """

    def __init__(
        self, blocks: np.ndarray, vocabulary: int, weights: np.ndarray | None = None
    ):
        check_shape("blocks", blocks, "N", "T")
        self.shares = frequencies(blocks, vocabulary)
        left, middle, right = counted(blocks)
        self.vocabulary = vocabulary
        contexts = left, right, left * vocabulary + right
        self.tables = [Table(keys, middle, vocabulary) for keys in contexts]
        self.weights = even_weights() if weights is None else weights
        check_reals("weights", self.weights, *even_weights().shape)
        if not (np.isfinite(self.weights).all() and self.weights.min() >= 0):
            raise ValueError("weights: expected finite ones from 0 up, got others")

    def fit(
        self,
        inputs: np.ndarray,
        targets: np.ndarray,
        masked: np.ndarray,
        steps: int = 20,
    ) -> list[float]:
        r"""Fit the weights by expectation maximisation on text that was not counted (eq:em).

        .. math:: \lambda_{ck} \gets \operatorname{mean}_{n \in c}
            \frac{\lambda_{ck}\, p_k(t_n)}{\sum_j \lambda_{cj}\, p_j(t_n)}

        A case without a token keeps its weights.

        Parameters
        ----------
        inputs, targets : ndarray of int (N, T)
            What is seen, and what was there.
        masked : ndarray of bool (N, T)
        steps : int

        Returns
        -------
        list of float
            The mean loss before each step. It never rises.
        """
        check_positive_int("steps", steps)
        case, keys = self.cases(inputs, masked)
        parts = self.parts(keys, self.answers(targets, masked))
        number = np.ravel_multi_index(case, self.weights.shape[:-1])
        weights = self.weights.reshape(-1, len(PARTS))
        sizes = np.bincount(number, minlength=len(weights))[:, np.newaxis]
        losses = []
        for _ in range(steps):
            joint = weights[number] * parts
            total = joint.sum(axis=1, keepdims=True)
            losses.append(float(-np.log(total).mean()))
            sums = np.zeros_like(weights)
            np.add.at(sums, number, joint / total)
            weights = np.where(sizes > 0, sums / np.maximum(sizes, 1), weights)
        self.weights = weights.reshape(self.weights.shape)
        return losses

    def probabilities(self, inputs: np.ndarray, masked: np.ndarray) -> np.ndarray:
        """Return the probabilities (M, V) of each masked token, as ``inputs[masked]``."""
        return np.concatenate([*self.rows(*self.cases(inputs, masked))])

    def measure(
        self, inputs: np.ndarray, targets: np.ndarray, masked: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return for each masked token its loss, and whether the most probable one is right.

        Parameters
        ----------
        inputs, targets : ndarray of int (N, T)
        masked : ndarray of bool (N, T)

        Returns
        -------
        losses : ndarray (M,)
        right : ndarray of bool (M,)
        """
        answers = self.answers(targets, masked)
        losses, guesses = [], []  # type: ignore[var-annotated]
        for p in self.rows(*self.cases(inputs, masked)):
            asked = answers[len(guesses) : len(guesses) + len(p)]
            losses.extend(-np.log(p[np.arange(len(p)), asked]))
            guesses.extend(p.argmax(axis=1))
        return np.array(losses), np.array(guesses) == answers

    def cases(self, inputs, masked):
        """The case of each masked token, and the keys under which its parts are counted."""
        check_shape("inputs", inputs, "N", "T")
        check_ids("inputs", inputs, self.vocabulary)
        check_masked(masked, inputs.shape)
        left, right = (part[masked] for part in neighbours(inputs))
        seen = inputs[masked].astype(np.int64)
        keys = left, right, left * self.vocabulary + right, seen
        before, after, pair = (
            table.size(key) for table, key in zip(self.tables, keys[:3], strict=True)
        )
        times = np.minimum(np.ceil(np.log2(pair + 1)), 4).astype(int)
        known = before > 0, after > 0, seen >= SPECIALS
        return (*(one.astype(int) for one in known), times), keys

    def answers(self, targets, masked):
        check_masked(masked, np.shape(masked))
        check_shape("targets", targets, *masked.shape)
        check_ids("targets", targets, self.vocabulary)
        asked = targets[masked].astype(np.int64)
        if not len(asked) or asked.min() < SPECIALS:
            raise ValueError("targets: expected masked tokens, none of them special")
        return asked

    def parts(self, keys, tokens):
        """What each part gives to one token for each key, (M, 6)."""
        *contexts, seen = keys
        return np.stack(
            [
                np.full(len(tokens), 1 / (self.vocabulary - SPECIALS)),
                self.shares[tokens],
                *(
                    table.share(key, tokens)
                    for table, key in zip(self.tables, contexts, strict=True)
                ),
                (seen == tokens).astype(float),
            ],
            axis=1,
        )

    def rows(self, case, keys):
        """Probabilities of the whole vocabulary, some rows at a time."""
        *contexts, seen = keys
        constant = np.zeros((2, self.vocabulary))
        constant[0, SPECIALS:] = 1 / (self.vocabulary - SPECIALS)
        constant[1] = self.shares
        weights = self.weights[case]
        for first in range(0, len(seen), TOGETHER):
            part = slice(first, first + TOGETHER)
            p = weights[part, :2] @ constant
            for row, n in enumerate(range(*part.indices(len(seen)))):
                for k, table in enumerate(self.tables):
                    tokens, shares = table.row(contexts[k][n])
                    p[row, tokens] += weights[n, 2 + k] * shares
                if seen[n] >= SPECIALS:
                    p[row, seen[n]] += weights[n, 5]
            yield p


class Table:
    """How often each token stood with each key."""

    def __init__(self, keys, tokens, vocabulary):
        self.vocabulary = vocabulary
        pairs, self.counts = np.unique(keys * vocabulary + tokens, return_counts=True)
        self.pairs = pairs
        self.keys, self.first = np.unique(pairs // vocabulary, return_index=True)
        self.ends = np.append(self.first[1:], len(pairs))
        totals = np.append(0, np.cumsum(self.counts))
        self.totals = totals[self.ends] - totals[self.first]

    def size(self, keys):
        """How often each key was counted."""
        return look_up(self.keys, self.totals, keys)

    def share(self, keys, tokens):
        """The share of one token among those of a key; 0 where the key is unknown."""
        counts = look_up(self.pairs, self.counts, keys * self.vocabulary + tokens)
        return counts / np.maximum(self.size(keys), 1)

    def row(self, key):
        """The tokens of a key, and their shares."""
        place = np.searchsorted(self.keys, key)
        if place == len(self.keys) or self.keys[place] != key:
            return np.arange(0), np.zeros(0)
        part = slice(self.first[place], self.ends[place])
        shares = self.counts[part] / self.totals[place]
        return self.pairs[part] % self.vocabulary, shares


def even_weights():
    """Weights that are the same for all parts that a case knows, (2, 2, 2, 5, 6)."""
    left, right, seen, times = np.indices((2, 2, 2, 5))
    one = np.ones_like(left)
    known = np.stack([one, one, left, right, times > 0, seen], axis=-1)
    return known / known.sum(axis=-1, keepdims=True)


def interpolated(
    blocks: np.ndarray, vocabulary: int, rng: np.random.Generator, steps: int = 20
) -> Interpolated:
    """Count blocks, with weights that were fitted on a tenth of them while it was not counted.

    Parameters
    ----------
    blocks : ndarray of int (N, T)
        More than 450, since stretches of 50 are kept together: neighbours tell of each other.
    vocabulary : int
        V.
    rng : numpy.random.Generator
        Masks the tenth.
    steps : int
        See :meth:`Interpolated.fit`.

    Returns
    -------
    Interpolated
    """
    check_shape("blocks", blocks, "N", "T")
    tenth = np.arange(len(blocks)) // STRETCH % 10 == 9
    if not tenth.any():
        raise ValueError(f"blocks: expected more than {9 * STRETCH}, got {len(blocks)}")
    model = Interpolated(blocks[~tenth], vocabulary)
    inputs, masked = mask(blocks[tenth], vocabulary, rng)
    model.fit(inputs, blocks[tenth], masked, steps)
    return Interpolated(blocks, vocabulary, model.weights)
