"""Kneser-Ney: a counting model of the next token, and a hard one to beat."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import (
    check_ids,
    check_kind,
    check_positive_int,
    check_shape,
)

KINDS = 28  # of contexts of one length: the last has 64 tokens after it or more, each 8 times


class History(NamedTuple):
    """The tokens that a counting model has read (B, T): all that it remembers."""

    ids: np.ndarray

    @property
    def length(self) -> int:
        """How many."""
        return self.ids.shape[1]

    def first(self, length: int) -> "History":
        """Return the first of them."""
        return History(self.ids[:, :length])


class KneserNey:
    r"""Gives the probabilities of the next token by counting n-grams (eq:kneser-ney).

    .. math::
        p_n(w \mid h) = \frac{\max(c_n(hw) - \delta_n, 0)
            + \delta_n \, N_n(h) \, p_{n-1}(w \mid h')}{\sum_v c_n(hv)}, \qquad
        \delta_n = \frac{n_1}{n_1 + 2 n_2}

    The context h is the n - 1 tokens before w, and h' is h without the first of them; N(h) is how
    many different tokens have been counted after h, and p_0 = 1 / V. In the longest n-grams, c
    counts how often hw occurs; in the shorter ones, with how many different tokens before it.
    n_1 and n_2 are how many n-grams have the counts 1 and 2. A context that was never counted, or
    would begin before the text, leaves the probability to the shorter one.

    Parameters
    ----------
    ids : ndarray of int (N,)
        The text that is counted.
    vocabulary : int
        V.
    order : int
        The longest n.

    Source: Kneser & Ney 1995; Chen & Goodman 1999, equation 24 for the interpolation.
    """

    def __init__(self, ids: np.ndarray, vocabulary: int, order: int = 5):
        check_shape("ids", ids, "N")
        check_positive_int("vocabulary", vocabulary)
        check_ids("ids", ids, vocabulary)
        check_positive_int("order", order)
        if len(ids) < order:
            raise ValueError(f"ids: expected at least {order} tokens, got {len(ids)}")
        self.vocabulary, self.order = vocabulary, order
        # By n - 1: the n-grams in numbers, sorted, c of each, and c and N of each context.
        self.grams: list[np.ndarray] = []
        self.counts: list[np.ndarray] = []
        self.totals: list[np.ndarray] = []
        self.types: list[np.ndarray] = []
        before = np.zeros(len(ids) + 1, np.int64)  # the (n - 1)-gram up to each place
        ends = ids.astype(np.int64)
        for n in range(order):
            keys = before[:-1] * vocabulary + ends[n:]
            grams, first, number, counts = np.unique(keys, True, True, True)
            self.grams.append(grams)
            self.counts.append(counts)
            if n:  # each different n-gram is one token before its last n - 1
                shorter = before[1:][first]
                self.counts[n - 1] = np.bincount(
                    shorter, minlength=len(self.grams[n - 1])
                )
            before = number
        contexts = [1, *map(len, self.grams)]
        for n, grams in enumerate(self.grams):
            of, counts = grams // vocabulary, self.counts[n]
            self.totals.append(np.bincount(of, counts, contexts[n]))
            self.types.append(np.bincount(of, counts > 0, contexts[n]))
        self.discounts = [discount(counts) for counts in self.counts]

    def losses(self, ids: np.ndarray) -> np.ndarray:
        """Return -ln p of each token of a text but the first (N - 1,), given those before it."""
        check_shape("ids", ids, "N")
        check_ids("ids", ids, self.vocabulary)
        if len(ids) < 2:
            raise ValueError(f"ids: expected at least 2 tokens, got {len(ids)}")
        return -np.log(self.probability(self.contexts(ids[:-1]), ids[1:]))

    def kinds(self, ids: np.ndarray) -> np.ndarray:
        """Return the kind of context of each token of a text but the first (N - 1,).

        It is n K + 4 min(floor(log2 m), 6) + min(floor(log2 q), 3), where n is the length of the
        longest context that was counted, m how many different tokens were counted after it, q how
        often each on average, and K = ``KINDS`` (eq:mixture-kinds, without the recent past).
        """
        check_shape("ids", ids, "N")
        check_ids("ids", ids, self.vocabulary)
        kinds = np.zeros(len(ids) - 1, np.int64)
        for n, context in enumerate(self.contexts(ids[:-1])):
            after = np.where(context < 0, 0, self.types[n][context])
            each = self.totals[n][context] / np.maximum(after, 1)
            m, q = (np.log2(np.maximum(a, 1)).astype(np.int64) for a in (after, each))
            kind = n * KINDS + 4 * np.minimum(m, 6) + np.minimum(q, 3)
            kinds = np.where(after > 0, kind, kinds)
        return kinds

    def distribution(self, history: np.ndarray) -> np.ndarray:
        """Return the probabilities (V,) of what may follow some tokens (T,).

        Only the tokens that were counted after a context are touched one by one: all others share
        what is left, in proportion to the shorter context's.
        """
        check_shape("history", history, "T")
        check_ids("history", history, self.vocabulary)
        p = np.full(self.vocabulary, 1 / self.vocabulary)
        for n, found in enumerate(self.contexts(history[1 - self.order :])):
            context = found[-1]
            if context < 0 or not self.totals[n][context]:
                break
            begin = context * self.vocabulary
            low, high = np.searchsorted(self.grams[n], [begin, begin + self.vocabulary])
            kept = np.maximum(self.counts[n][low:high] - self.discounts[n], 0)
            p *= self.discounts[n] * self.types[n][context] / self.totals[n][context]
            p[self.grams[n][low:high] - begin] += kept / self.totals[n][context]
        return p

    def begin(self, batch: int) -> "History":
        """Return the state before the first token of ``batch`` texts."""
        check_positive_int("batch", batch)
        return History(np.empty((batch, 0), np.int64))

    def prefill(
        self, ids: np.ndarray, state: "History"
    ) -> tuple[np.ndarray, "History"]:
        """Read the next tokens (B, N): ln p of what may follow them (B, V), and the state."""
        read = check_kind("state", state, History).ids
        check_shape("ids", ids, len(read), "N")
        check_ids("ids", ids, self.vocabulary)
        read = np.concatenate([read, ids], axis=1)
        return np.log([self.distribution(row) for row in read]), History(read)

    def contexts(self, ids):
        """The numbers of the last 0, 1, ... tokens up to each place; -1 where not counted."""
        found = [np.zeros(len(ids), np.int64)]
        before = found[0]
        for n in range(self.order - 1):
            keys = np.where(before < 0, -1, before * self.vocabulary + ids)
            found.append(places(self.grams[n], keys))
            before = np.append(-1, found[-1][:-1])
        return found

    def probability(self, contexts, tokens):
        """The probability of each token after its contexts, from the shortest to the longest."""
        p = np.full(len(tokens), 1 / self.vocabulary)
        for n, context in enumerate(contexts):
            keys = np.where(context < 0, -1, context * self.vocabulary + tokens)
            place = places(self.grams[n], keys)
            counts = np.where(place < 0, 0, self.counts[n][place])
            total = np.where(context < 0, 0, self.totals[n][context])
            kept = np.maximum(counts - self.discounts[n], 0)
            rest = self.discounts[n] * self.types[n][context] * p
            p = np.where(total > 0, (kept + rest) / np.maximum(total, 1), p)
        return p


def places(known, wanted):
    """The place of each wanted number in a sorted array, -1 where it is not there."""
    found = np.searchsorted(known, wanted).clip(max=len(known) - 1)
    return np.where(known[found] == wanted, found, -1)


def discount(counts):
    """What is taken off each count: half, where no n-gram has the count 1."""
    once, twice = (np.count_nonzero(counts == k) for k in (1, 2))
    return once / (once + 2 * twice) if once else 0.5
