from fractions import Fraction
from itertools import islice, product

import numpy as np
import pytest
from helpers.witnesses import generators, randomise
from hypothesis import assume, given
from hypothesis import strategies as st

from transformer_core.layers import AttentionSpec, LayerSpec, NormSpec
from transformer_core.models import Gpt, Sampling, StackSpec, greedy_search, sample
from transformer_core.models.sampling import (
    draw,
    min_p,
    repetition_penalty,
    temperature,
    top_k,
    top_p,
)
from transformer_core.ops import softmax

V, LENGTH, END = 7, 9, 1
UNSEEN = np.zeros(4, bool)
EVERY = list(product([0.1, 0.2, 0.3, 0.4], repeat=3))  # weights of three tokens, with ties


def logits_of(*weights):
    return np.log(np.array(weights, float))


def probabilities(logits):
    return softmax(logits)[0]


def kept(logits):
    """The tokens that are left."""
    return [int(v) for v in np.flatnonzero(logits > -np.inf)]


def exact(weights):
    total = sum(Fraction(str(w)) for w in weights)
    return [Fraction(str(w)) / total for w in weights]


# --- by hand, and by enumeration --------------------------------------------------------

P = logits_of(0.5, 0.3, 0.15, 0.05)


@pytest.mark.parametrize(
    "change, left",
    [
        (lambda z: top_k(z, 1), [0]),
        (lambda z: top_k(z, 3), [0, 1, 2]),
        (lambda z: top_k(z, 9), [0, 1, 2, 3]),
        (lambda z: top_p(z, 0.6), [0, 1]),  # the second one crosses
        (lambda z: top_p(z, 0.4), [0]),
        (lambda z: top_p(z, 1e-9), [0]),
        (lambda z: top_p(z, 0.96), [0, 1, 2, 3]),
        (lambda z: top_p(z, 1), [0, 1, 2, 3]),
        (lambda z: min_p(z, 0.5), [0, 1]),
        (lambda z: min_p(z, 1), [0]),
        (lambda z: min_p(z, 0), [0, 1, 2, 3]),
        (lambda z: temperature(z, 0), [0]),
    ],
)
def test_what_is_left_of_four_tokens(change, left):
    changed = change(P)
    assert kept(changed) == left
    share = np.exp(P[left]).sum()
    assert np.allclose(probabilities(changed)[left], np.exp(P[left]) / share, rtol=1e-12)


def test_of_all_distributions_of_three_tokens_the_right_ones_are_left():
    """By their definitions, in fractions, without the sorting of the package."""
    for weights in EVERY:
        p, z = exact(weights), logits_of(*weights)
        for k in (1, 2, 3):
            better = [sum(q > own for q in p) for own in p]
            assert kept(top_k(z, k)) == [v for v in range(3) if better[v] < k]
        for share in (0.05, 0.35, 0.45, 0.55, 0.65, 0.93):
            above = [sum((q for q in p if q > own), Fraction(0)) for own in p]
            assert kept(top_p(z, share)) == [v for v in range(3) if above[v] < share]
            least = Fraction(str(share)) * max(p)
            assert kept(min_p(z, share)) == [v for v in range(3) if p[v] >= least]


def test_equally_probable_tokens_stay_together():
    z = logits_of(0.1, 0.3, 0.3, 0.3)
    assert kept(top_k(z, 1)) == kept(top_k(z, 2)) == [1, 2, 3]
    assert kept(top_p(z, 0.2)) == kept(temperature(z, 0)) == [1, 2, 3]


def test_a_temperature_raises_probabilities_to_a_power():
    p = np.exp(P) ** 2
    assert np.allclose(probabilities(temperature(P, 0.5)), p / p.sum(), rtol=1e-12)
    near = probabilities(temperature(P.astype(np.float32), 1e-40))
    assert near.tolist() == [1, 0, 0, 0]


def test_the_penalty_makes_seen_tokens_less_probable_whatever_their_sign():
    z, seen = np.array([2.0, -2.0, 0.5, -1.0]), np.array([True, True, False, False])
    changed = repetition_penalty(z, seen, 2.0)
    assert changed.tolist() == [1.0, -4.0, 0.5, -1.0]
    assert (probabilities(changed)[:2] < probabilities(z)[:2]).all()


# --- theorems ---------------------------------------------------------------------------

CHANGES = {
    "temperature": lambda z: temperature(z, 0.7),
    "top-k": lambda z: top_k(z, 3),
    "top-p": lambda z: top_p(z, 0.6),
    "min-p": lambda z: min_p(z, 0.2),
    "all": lambda z: np.log(Sampling(1.0, 0.8, 5, 0.9, 0.05).distribution(z, z > np.inf)),
}
every_change = pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)


@every_change
@given(generators, st.floats(-50, 50))
def test_a_shift_of_all_logits_changes_nothing(change, rng, shift):
    z = rng.normal(size=(3, V))
    with np.errstate(divide="ignore"):
        p, shifted = probabilities(change(z)), probabilities(change(z + shift))
    assert np.allclose(shifted, p, rtol=1e-9, atol=1e-12)


@pytest.mark.equation("eq:temperature-slope", "eq:entropy-slope")
@given(generators, st.floats(0.5, 3))
def test_the_slopes_of_a_temperature(rng, tau):
    """By the complex step, which softmax takes, and by central differences of the entropy."""
    z, h = rng.normal(size=V), 1e-4
    p = probabilities(temperature(z, tau))
    slope = p * (p @ z - z) / tau**2
    assert np.allclose(probabilities(z / (tau + 1e-30j)).imag / 1e-30, slope, rtol=1e-9, atol=1e-15)
    entropies = [
        -(q * np.log(q)).sum() for q in (probabilities(temperature(z, tau + s)) for s in (h, -h))
    ]
    variance = p @ z**2 - (p @ z) ** 2
    found = (entropies[0] - entropies[1]) / (2 * h)
    assert np.isclose(found, variance / tau**3, rtol=1e-4, atol=1e-8)


@given(generators, st.sampled_from(["top-k", "top-p", "min-p"]))
def test_the_mass_that_is_cut_off_is_the_distance(rng, name):
    """The divergence is minus the logarithm of the mass that is kept."""
    z = rng.normal(size=V)
    p, q = probabilities(z), probabilities(CHANGES[name](z))
    left = q > 0
    mass = p[left].sum()
    assert np.isclose(np.abs(q - p).sum() / 2, 1 - mass, atol=1e-12)
    assert np.isclose(q[left] @ np.log(q[left] / p[left]), -np.log(mass), atol=1e-12)


@given(generators, st.floats(1.1, 3), st.floats(0.5, 20))
def test_the_penalty_is_not_the_same_after_a_shift(rng, penalty, shift):
    """Among positive logits, the log-odds of seen to unseen change by c (1 / theta - 1)."""
    z, seen = rng.random(V) + 0.1, np.arange(V) < 3
    one, other = (
        np.log(probabilities(repetition_penalty(z + c, seen, penalty))) for c in (0, shift)
    )
    odds = (other[0] - other[-1]) - (one[0] - one[-1])
    assert np.isclose(odds, shift * (1 / penalty - 1), rtol=1e-9)
    assert abs(odds) > 0.04


@every_change
@given(generators)
def test_no_token_has_a_place_of_its_own(change, rng):
    z = rng.integers(4, size=V) / 2.0  # with ties
    order = rng.permutation(V)
    with np.errstate(divide="ignore"):
        permuted, p = probabilities(change(z[order])), probabilities(change(z))
    assert np.allclose(permuted, p[order], rtol=1e-12)


@every_change
@given(generators)
def test_what_has_been_ruled_out_stays_so_and_the_order_too(change, rng):
    z = rng.normal(size=(3, V))
    z[:, 2] = -np.inf
    with np.errstate(divide="ignore"):
        p, before = probabilities(change(z)), probabilities(z)
    assert (p[:, 2] == 0).all() and np.allclose(p.sum(axis=-1), 1)
    best = before.argmax(axis=-1)
    assert (p.argmax(axis=-1) == best).all()
    ranks = np.argsort(-before, axis=-1)
    assert (np.diff(np.take_along_axis(p, ranks, axis=-1), axis=-1) <= 1e-15).all()


@given(generators)
def test_rows_do_not_see_each_other_and_the_dtype_is_kept(rng):
    z = rng.normal(size=(2, 3, V)).astype(np.float32)
    seen = rng.random(z.shape) < 0.5
    changes = [*list(CHANGES.values())[:4]]
    for change in changes:
        rows = [[change(row) for row in rows] for rows in z]
        assert np.array_equal(change(z), rows) and change(z).dtype == np.float32
    penalised = repetition_penalty(z, seen, 1.3)
    assert penalised.dtype == np.float32
    assert np.array_equal(penalised[0, 1], repetition_penalty(z[0, 1], seen[0, 1], 1.3))
    assert Sampling().distribution(z, seen).dtype == np.float64


# --- drawing ----------------------------------------------------------------------------


class Uniform:
    """A generator that draws given numbers."""

    def __init__(self, *numbers):
        self.numbers = np.array(numbers)[:, np.newaxis]

    def random(self, shape):
        assert shape == self.numbers.shape
        return self.numbers


def test_each_token_is_drawn_on_an_interval_as_long_as_its_probability():
    p = np.tile([0.25, 0.0, 0.5, 0.25, 0.0], (6, 1))
    drawn = draw(p, Uniform(0.0, 0.2499, 0.25, 0.7499, 0.75, 1 - 2**-53))
    assert drawn.tolist() == [0, 0, 2, 2, 3, 3]


def test_a_sum_that_falls_short_of_one_leaves_no_gap():
    p = np.array([[0.3, 0.3, 0.39], [0.3, 0.3, 0.3]])
    assert draw(p, Uniform(1 - 2**-53, 0.64)).tolist() == [2, 1]


# --- writing ----------------------------------------------------------------------------


class Chain:
    """A model whose next token depends on the newest one alone."""

    vocabulary, longest = 4, 6

    def __init__(self, rows):
        with np.errstate(divide="ignore"):
            self.logits = np.log(np.array(rows))

    def begin(self, batch):
        return ()

    def prefill(self, ids, state):
        return self.logits[ids[:, -1]], state

    def step(self, tokens, state):
        return self.logits[tokens], state


ROWS = [[0.5, 0.2, 0.3, 0], [0, 0.1, 0.6, 0.3], [0.25, 0.25, 0.25, 0.25], [0.7, 0, 0, 0.3]]


def gpt(rng):
    heads = AttentionSpec(2, bias=False, key_heads=1, transform="rotary_halves")
    spec = LayerSpec(8, heads, 12, "pre", NormSpec("rms_norm"), "swiglu", dtype="float64")
    return randomise(Gpt(spec, StackSpec(V, LENGTH, 1), rng), rng)


def written(*arguments, **settings):
    return np.stack([*sample(*arguments, **settings)], axis=1)


def test_the_texts_of_a_chain_have_the_product_of_its_probabilities(rng):
    """All that may be written, counted: Pearson's chi-square with 30 degrees of freedom."""
    n = 20_000
    chain, start = Chain(ROWS), np.zeros((n, 1), int)
    texts = written(chain, start, rng, longest=4)
    counts = np.zeros((4, 4, 4))
    np.add.at(counts, tuple(texts.T), 1)
    p = np.array(ROWS)
    expected = n * p[0][:, None, None] * p[:, :, None] * p[np.newaxis]
    assert (counts[expected == 0] == 0).all()
    chance = expected > 0
    assert np.count_nonzero(chance) == 31
    assert (
        (counts - expected)[chance] ** 2 / expected[chance]
    ).sum() < 59.7  # once in a thousand seeds


def test_without_a_choice_it_is_greedy_search(rng):
    model, prompts = gpt(rng), rng.integers(2, V, (4, 5))
    lengths = np.array([1, 3, 5, 2])
    for sampling in (Sampling(temperature=0), Sampling(top_k=1), Sampling(top_p=1e-9)):
        tokens = written(model, prompts, rng, sampling, start_lengths=lengths, longest=LENGTH)
        expected, _ = greedy_search(
            model, 4, start=prompts, start_lengths=lengths, end=0, longest=LENGTH - 1
        )
        for row, (found, right) in enumerate(zip(tokens, expected, strict=True)):
            ended = np.flatnonzero(right[lengths[row] - 1 :] == 0)
            stop = lengths[row] + ended[0] if len(ended) else len(right)
            assert found[:stop].tolist() == right[:stop].tolist()


@given(generators)
def test_each_token_is_drawn_from_the_distribution_that_recomputation_gives(rng):
    """In a batch of prompts of different lengths, as each of them alone."""
    model, prompts = gpt(rng), rng.integers(V, size=(3, 4))
    lengths, sampling = np.array([4, 1, 2]), Sampling(1.3, 0.9, 5, 0.95, 0.01)
    asked, numbers = [], rng.random((LENGTH, 3, 1))

    class Noted(Uniform):
        def random(self, shape):
            self.numbers = numbers[len(asked)]
            asked.append(shape)
            return super().random(shape)

    tokens = written(model, prompts, Noted(0, 0, 0), sampling, start_lengths=lengths)
    assert tokens.shape == (3, LENGTH)  # and one was given to all
    for b, prompt in enumerate(prompts):
        text = np.append(prompt[:1], tokens[b])
        logits, _ = model.forward(text[np.newaxis, :-1])
        seen = np.logical_or.accumulate(np.eye(V, dtype=bool)[text[:-1]])
        below = np.cumsum(sampling.distribution(logits[0], seen), axis=-1)
        assume(np.abs(below - numbers[:, b]).min() > 1e-9)
        drawn = (below <= numbers[:, b] * below[:, -1:]).sum(axis=-1)
        given = prompt[1 : lengths[b]]
        assert tokens[b].tolist() == [*given, *drawn[len(given) :]]


def test_it_streams(rng):
    model, steps = gpt(rng), []
    step = model.step
    model.step = lambda *given: steps.append(1) or step(*given)
    stream = sample(model, np.array([[3, 4]]), rng)
    assert [len(token) for token in islice(stream, 3)] == [1, 1, 1]
    assert len(steps) == 2  # the third token is not read before the fourth is asked for


def test_a_sequence_that_has_ended_stays_so_while_others_go_on(rng):
    rows = [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    tokens = written(Chain(rows), np.array([[0], [3]]), rng, end=1, longest=5)
    assert tokens.tolist() == [[1] * 4, [3] * 4]
    assert written(Chain(rows), np.array([[0]]), rng, end=1).tolist() == [[1]]


def test_the_prompt_counts_as_seen(rng):
    rows = [[0.5, 0.5, 0, 0]] * 4
    chain = Chain(rows)
    chain.logits = chain.logits + 3  # positive
    tokens = written(chain, np.zeros((50, 1), int), rng, Sampling(penalty=1e9, top_k=1), longest=2)
    assert (tokens == 1).all()


# --- errors -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"penalty": 0}, "penalty: expected a positive number, got 0"),
        ({"temperature": -1}, "temperature: expected a number of at least 0, got -1"),
        ({"top_k": 0}, "top_k: expected a whole number of at least 1, got 0"),
        ({"top_p": 0}, "top_p: expected a number above 0, up to 1, got 0"),
        ({"top_p": 1.5}, "top_p: expected a number above 0, up to 1, got 1.5"),
        ({"min_p": -0.1}, "min_p: expected a number from 0 to 1, got -0.1"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Sampling(**settings)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_bad_logits_are_named(wrong):
    for logits in (np.array([1.0, wrong]), np.full(3, -np.inf)):
        with pytest.raises(ValueError, match="logits: expected finite numbers, or -inf beside"):
            top_p(logits, 0.5)


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"start": np.array([3])}, r"start: expected shape \(B, P\), got \(1,"),
        ({"start": np.array([[V]])}, "start: expected ids from 0 to 6, got 7"),
        ({"start": np.zeros((1, 10), int)}, "start_lengths: expected 1 to 9 tokens"),
        ({"start_lengths": np.array([3])}, "start_lengths: expected ids from 0 to 2, got 3"),
        ({"rng": 3}, "rng: expected a generator"),
        ({"end": V}, "end: expected ids from 0 to 6, got 7"),
        ({"longest": 11}, "longest: expected at most 10 tokens, got 11"),
        ({"longest": 2}, "start_lengths: expected 1 to 1 tokens"),
    ],
)
def test_bad_input_is_named(rng, changed, message):
    given = {"start": np.array([[3, 4]]), "rng": rng} | changed
    with pytest.raises(ValueError, match=message):
        next(sample(gpt(rng), **given))
