from fractions import Fraction

import numpy as np
import pytest
from helpers.witnesses import generators
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.tasks.gpt.kneser_ney import KINDS, KneserNey

V = 5


def by_definition(text, order):
    """p(w | h) in fractions: counted by going through the text for every question."""
    text = tuple(text)
    grams = {n: [text[i : i + n] for i in range(len(text) - n + 1)] for n in range(order + 2)}

    def count(gram):
        if len(gram) == order:
            return grams[order].count(gram)
        return len({long for long in grams[len(gram) + 1] if long[1:] == gram})

    def discount(n):
        counts = [count(gram) for gram in set(grams[n])]
        once, twice = counts.count(1), counts.count(2)
        return Fraction(once, once + 2 * twice) if once else Fraction(1, 2)

    discounts = {n: discount(n) for n in range(1, order + 1)}

    def p(w, h):
        n = len(h) + 1
        shorter = p(w, h[1:]) if h else Fraction(1, V)
        counts = [count((*h, v)) for v in range(V)]
        if not sum(counts):
            return shorter
        kept = max(counts[w] - discounts[n], Fraction(0))
        types = sum(c > 0 for c in counts)
        return (kept + discounts[n] * types * shorter) / sum(counts)

    return p


@pytest.mark.equation("eq:kneser-ney")
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_probabilities_are_those_of_the_definition(rng, order):
    text = rng.integers(V - 1, size=40).tolist()  # one token is never counted
    model, p = KneserNey(np.array(text), V, order), by_definition(text, order)
    for history in ([0], [1, 2], [3, 0, 1], [4], [2, 4], [4, 1, 0, 3, 2]):
        h = tuple(history[-(order - 1) :]) if order > 1 else ()
        expected = [float(p(w, h)) for w in range(V)]
        np.testing.assert_allclose(model.distribution(np.array(history)), expected, rtol=1e-12)


@given(generators, st.integers(1, 5), st.integers(8, 60))
def test_after_every_history_they_sum_to_1(rng, order, length):
    model = KneserNey(rng.integers(V, size=length), V, order)
    for _ in range(5):
        p = model.distribution(rng.integers(V, size=rng.integers(1, 7)))
        assert p.min() > 0 and np.isclose(p.sum(), 1, rtol=1e-12)


@given(generators, st.integers(1, 5))
def test_losses_are_those_of_the_distributions(rng, order):
    model, text = KneserNey(rng.integers(V, size=30), V, order), rng.integers(V, size=12)
    losses = model.losses(text)
    for t in range(1, 12):
        assert np.isclose(losses[t - 1], -np.log(model.distribution(text[:t])[text[t]]))


@pytest.mark.equation("eq:mixture-kinds")
def test_a_kind_is_how_long_a_context_is_known_and_what_follows_how_often(rng):
    text = rng.integers(V, size=60).tolist()
    text += [0, 1, 2, 3] * 40 + [0, 1, 4, 4]  # nothing has been counted after 4 4
    new = [*rng.integers(V, size=196).tolist(), 0, 1, 2, 3]
    kinds = KneserNey(np.array(text), V, 4).kinds(np.array(new))

    def followers(context):
        n = len(context)
        at = [i for i in range(n < 3, len(text) - n) if text[i : i + n] == context]
        if n == 3:
            return [text[i + n] for i in at]
        # A shorter one counts the tokens before it.
        return [last for _, last in {(text[i - 1], text[i + n]) for i in at}]

    for t in range(1, 200):
        n, after = next(
            (n, found)
            for n in reversed(range(min(t, 3) + 1))
            if (found := followers(new[t - n : t]))
        )
        different = len({*after})
        each = int(np.log2(len(after) / different))
        assert kinds[t - 1] == n * KINDS + 4 * int(np.log2(different)) + min(each, 3)
    assert len({*kinds}) > 4 and {0, 1, 3} == {*(kinds % 4)}


@given(generators, st.integers(1, 4))
def test_in_pieces_and_taken_back_it_reads_what_it_reads_at_once(rng, order):
    model, text = KneserNey(rng.integers(V, size=30), V, order), rng.integers(V, size=(2, 9))
    _, state = model.prefill(text[:, :5], model.begin(2))
    _, longer = model.prefill(text[:, 8:], state)
    logits, state = model.prefill(text[:, 4:8], longer.first(4))
    expected = [np.log(model.distribution(row[:8])) for row in text]
    np.testing.assert_array_equal(logits, expected)
    assert (longer.length, state.length) == (6, 8)


def test_a_token_that_follows_one_token_alone_is_rare_elsewhere():
    """Francisco: 6 times after San, and no more probable after what is new than a rare word."""
    san, francisco, the, cat, dog = range(5)
    text = [san, francisco, the, cat] * 6 + [the, dog, cat, dog]
    p = KneserNey(np.array(text), V, 2).distribution(np.array([dog]))
    once = KneserNey(np.array(text), V, 1).distribution(np.array([dog]))
    assert once[francisco] > once[dog] and p[francisco] < p[dog]


@pytest.mark.parametrize(
    "ids, order, message",
    [
        (np.array([0, V, 1]), 2, "ids: expected ids from 0 to 4, got 5"),
        (np.zeros(3, int), 4, "ids: expected at least 4 tokens, got 3"),
    ],
)
def test_bad_input_is_named(ids, order, message):
    with pytest.raises(ValueError, match=message):
        KneserNey(ids, V, order)
