import pickle
from itertools import product

import numpy as np
import pytest
from helpers.witnesses import generators, randomise
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.layers import AttentionSpec, LayerSpec, NormSpec
from transformer_core.models import (
    Gpt,
    Sampling,
    StackSpec,
    sample,
    speculative,
    speculative_sample,
)
from transformer_core.models.speculative import accept, expected_tokens, residual
from transformer_core.tasks.gpt.kneser_ney import KneserNey

V, LENGTH, END = 3, 9, 1
START = np.array([2, 0])
EVERYTHING = Sampling(penalty=1.3, temperature=0.8, top_k=2, top_p=0.95, min_p=0.05)
SAMPLINGS = {
    "as it is": Sampling(),
    "cooler": Sampling(temperature=0.6),
    "top-k": Sampling(top_k=2),
    "top-p": Sampling(top_p=0.7),
    "min-p": Sampling(min_p=0.5),
    "penalty": Sampling(penalty=1.7),
    "greedy": Sampling(temperature=0),
    "everything": EVERYTHING,
}


def small_gpt(seed, vocabulary=V, longest=LENGTH, transform="rotary_halves"):
    rng = np.random.default_rng(seed)
    heads = AttentionSpec(2, 4, 3, bias=False, key_heads=1, transform=transform)
    spec = LayerSpec(6, heads, 5, "pre", NormSpec("rms_norm"), "swiglu", dtype="float64")
    return randomise(Gpt(spec, StackSpec(vocabulary, longest, 1), rng), rng)


def counts_of(seed, order=3, vocabulary=V):
    return KneserNey(np.random.default_rng(seed).integers(vocabulary, size=30), vocabulary, order)


def remembered(compute):
    """Compute once what is asked for again with the same contents."""
    known = {}

    def look_up(*given):
        key = pickle.dumps(given)
        if key not in known:
            known[key] = compute(*given)
        return known[key]

    return look_up


def every_outcome(monkeypatch, run):
    """Run with every sequence of draws that is possible: its probability, and what is returned."""
    pending, drawn, chances = [[]], [], []

    def choose(rows, rng):
        return np.array([chosen(p / p.sum()) for p in rows])

    def chosen(p):
        place = len(chances)
        if place == len(drawn):
            token, *others = np.flatnonzero(p)
            pending.extend([*drawn, other] for other in others)
            drawn.append(token)
        chances.append(p[drawn[place]])
        return drawn[place]

    monkeypatch.setattr(speculative, "draw", choose)
    while pending:
        drawn[:] = pending.pop()
        chances.clear()
        found = run()
        yield np.prod(chances), found


def texts_by_enumeration(monkeypatch, model, drafter, sampling, number, drafts, end=None):
    """The probability of each text that can be written: the sum over all outcomes of the draws."""
    found = {}
    longest = len(START) + number
    model.score, drafter.prefill = remembered(model.score), remembered(drafter.prefill)

    def run():
        passes = speculative_sample(
            model, drafter, START, np.random.default_rng(0), sampling,
            drafts=drafts, end=end, longest=longest,
        )  # fmt: skip
        return tuple(int(token) for written in passes for token in written)

    for chance, text in every_outcome(monkeypatch, run):
        found[text] = found.get(text, 0) + chance
    return found


def texts_of_the_model(model, sampling, number, end=None):
    """The same from forward passes alone: the product of the probabilities of the tokens."""
    expected = {(): 1.0}
    for _ in range(number):
        longer = {}
        for text, chance in expected.items():
            if text and text[-1] == end:
                longer[text] = chance
                continue
            read = np.append(START, np.array(text, int))
            seen = np.isin(np.arange(V), read)
            p = sampling.distribution(model.forward(read[np.newaxis])[0][0, -1], seen)
            longer |= {(*text, v): chance * p[v] for v in range(V) if p[v]}
        expected = longer
    return expected


def assert_same_texts(found, expected):
    assert found.keys() == expected.keys()
    assert max(abs(found[text] - expected[text]) for text in expected) < 1e-12


# --- the theorem, by enumeration --------------------------------------------------------


@pytest.mark.equation("eq:accept")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.thorough] * (name in {"cooler", "penalty"}))
        for name in SAMPLINGS  # "everything" has both of these
    ],
)
def test_the_distribution_of_texts_is_the_models(monkeypatch, name):
    model, drafter, sampling = small_gpt(1), counts_of(2), SAMPLINGS[name]
    found = texts_by_enumeration(monkeypatch, model, drafter, sampling, 3, 2)
    assert_same_texts(found, texts_of_the_model(model, sampling, 3))


@pytest.mark.parametrize("drafts", [1, pytest.param(2, marks=pytest.mark.thorough), 3])
@pytest.mark.parametrize("drafter", ["GPT", "learned positions", "bigrams"])
def test_it_is_so_for_every_drafter_and_number_of_drafts(monkeypatch, drafter, drafts):
    model = small_gpt(1)
    drafters = {
        "GPT": small_gpt(5),
        "learned positions": small_gpt(6, transform=None),
        "bigrams": counts_of(7, order=2),
    }
    found = texts_by_enumeration(monkeypatch, model, drafters[drafter], Sampling(), 3, drafts)
    assert_same_texts(found, texts_of_the_model(model, Sampling(), 3))


def test_it_is_so_over_several_passes_and_up_to_an_end(monkeypatch):
    model, sampling = small_gpt(1), Sampling(temperature=0.5, top_k=2)
    found = texts_by_enumeration(monkeypatch, model, counts_of(2), sampling, 5, 1, END)
    assert_same_texts(found, texts_of_the_model(model, sampling, 5, END))
    assert len({len(text) for text in found}) > 2


@pytest.mark.equation("eq:resample")
@given(generators, st.integers(2, 6))
def test_a_token_that_is_accepted_or_drawn_anew_has_the_distribution_p(rng, vocabulary):
    p, q = rng.dirichlet(np.ones(vocabulary), 2)
    q[rng.integers(vocabulary)] = 0
    q /= q.sum()
    kept = np.minimum(p, q)
    written = kept + (1 - kept.sum()) * residual(p, q)
    np.testing.assert_allclose(written, p, atol=1e-14)
    assert residual(p, q)[q >= p].max() == 0


def test_equal_distributions_reject_nothing_and_leave_p(rng):
    p = rng.dirichlet(np.ones(5), 3)
    np.testing.assert_array_equal(residual(p, p), p)
    drafted = np.array([3, 1])
    assert (accept(p, p[:2], drafted, rng)[:2] == drafted).all()


# --- greedy, seeds, passes --------------------------------------------------------------


def written(model, drafter, seed, sampling=None, **given):
    passes = speculative_sample(
        model, drafter, START, np.random.default_rng(seed), sampling, **given
    )
    return [[int(token) for token in tokens] for tokens in passes]


@pytest.mark.parametrize("drafts", [1, 3, 20])
def test_at_temperature_0_it_writes_what_greedy_decoding_writes(drafts):
    model, greedy = small_gpt(1, 7), Sampling(temperature=0)
    passes = written(model, counts_of(2, vocabulary=7), 0, greedy, drafts=drafts)
    (expected,) = np.transpose(
        [*sample(model, START[np.newaxis], np.random.default_rng(0), greedy)]
    )
    assert [token for tokens in passes for token in tokens] == expected.tolist()


def test_a_model_that_drafts_for_itself_is_accepted_throughout():
    model = small_gpt(1, 7)
    assert [len(tokens) for tokens in written(model, model, 0, drafts=2)] == [3, 3, 2]


def test_a_seed_says_what_is_written():
    model, drafter = small_gpt(1, 7), counts_of(2, vocabulary=7)
    assert written(model, drafter, 4) == written(model, drafter, 4)
    assert len({str(written(model, drafter, seed)) for seed in range(9)}) > 1


# --- how many tokens a pass writes ------------------------------------------------------


@pytest.mark.equation("eq:expected-tokens")
@pytest.mark.parametrize("rate", [0, 0.25, 0.8, 1])
@pytest.mark.parametrize("drafts", [1, 2, 4])
def test_the_expectation_is_the_sum_over_how_many_are_accepted(rate, drafts):
    chances = [
        np.prod([rate if yes else 1 - rate for yes in outcome])
        for outcome in product([True, False], repeat=drafts)
    ]
    tokens = [
        [*outcome, False].index(False) + 1 for outcome in product([True, False], repeat=drafts)
    ]
    assert np.isclose(expected_tokens(rate, drafts), np.dot(chances, tokens))
    if rate < 1:
        closed = (1 - rate ** (drafts + 1)) / (1 - rate)
        assert np.isclose(expected_tokens(rate, drafts), closed)


@pytest.mark.parametrize("rate", [0.3, 0.8])
def test_accepted_tokens_are_as_many_as_expected(monkeypatch, rate):
    """With the same p and q at every place, of which a share of ``rate`` overlaps."""
    p, q = np.array([[rate, 1 - rate, 0.0]] * 4), np.array([[rate, 0.0, 1 - rate]] * 3)

    def run():
        drafted = np.array([int(speculative.draw(row[np.newaxis], None)[0]) for row in q])
        return len(accept(p, q, drafted, None))

    mean = sum(chance * count for chance, count in every_outcome(monkeypatch, run))
    assert np.isclose(mean, expected_tokens(rate, 3))


# --- bad input --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, message",
    [
        ({"start": np.array([[0, 1]])}, r"start: expected shape \(P\)"),
        ({"start": np.array([0, V])}, "start: expected ids from 0 to 2, got 3"),
        ({"longest": 2}, "longest: expected 3 to 10 tokens, got 2"),
        ({"longest": 11}, "longest: expected 3 to 10 tokens, got 11"),
        ({"drafts": 0}, "drafts: expected a whole number of at least 1, got 0"),
        ({"end": V}, "end: expected ids from 0 to 2, got 3"),
        ({"drafter": counts_of(0, vocabulary=4)}, "drafter: expected a vocabulary of 3, got 4"),
    ],
)
def test_bad_input_is_named(change, message):
    given = {"start": START, "drafter": counts_of(2)} | change
    start, drafter = given.pop("start"), given.pop("drafter")
    with pytest.raises(ValueError, match=message):
        next(speculative_sample(small_gpt(1), drafter, start, np.random.default_rng(0), **given))
