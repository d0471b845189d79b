from itertools import islice

import numpy as np
import pytest

from transformer_core.layers import AttentionSpec, LayerSpec
from transformer_core.models import Gpt, Sampling, StackSpec
from transformer_core.ops import log_softmax
from transformer_core.tasks.gpt.byte_pairs import train_byte_pairs
from transformer_core.tasks.gpt.windows import (
    EDGES,
    FORGETTING,
    RECENT,
    best_weights,
    bits_per_byte,
    join_texts,
    mix,
    recent_kinds,
    token_bytes,
    token_losses,
    windows,
)
from transformer_core.tasks.gpt.writing import write

TEXTS = ["the cat sees the dog", "a dog sees a cät and the cat"]
PAIRS = train_byte_pairs(TEXTS, 270)


@pytest.fixture
def gpt(rng):
    spec = LayerSpec(8, AttentionSpec(2, transform="rotary"), 6, "pre", dtype="float64")
    return Gpt(spec, StackSpec(PAIRS.vocabulary, 12, 1), rng)


def test_an_end_of_text_stands_around_every_text():
    ids = join_texts(PAIRS, TEXTS)
    (end,) = PAIRS.special.values()
    first, second = (PAIRS.encode(text).tolist() for text in TEXTS)
    assert ids.tolist() == [end, *first, end, *second, end]
    assert token_bytes(PAIRS)[ids].sum() == sum(len(text.encode()) for text in TEXTS)


def test_targets_are_the_next_tokens_and_a_pass_has_each_window_once():
    ids = np.arange(103)
    a_pass = [*islice(windows(ids, 3, 10, seed=1), 3)]  # 9 windows
    inputs, targets = (np.concatenate(rows) for rows in zip(*a_pass, strict=True))
    assert inputs.shape == (9, 10) and np.array_equal(targets, inputs + 1)
    assert len(np.unique(inputs)) == inputs.size
    again = [*islice(windows(ids, 3, 10, seed=1), 6)][3:]
    cuts = {int(batch[0].min() % 10) for batch in again}
    assert len(cuts) == 1 and not np.array_equal(again[0][0], a_pass[0][0])


def test_a_batch_depends_on_the_seed_and_the_step_alone():
    ids = np.arange(103)
    every = [*islice(windows(ids, 2, 10, 5), 12)]
    for first in (1, 4, 9, 12):
        (found, _) = next(windows(ids, 2, 10, 5, first))
        assert np.array_equal(found, every[first - 1][0])
    assert not np.array_equal(next(windows(ids, 2, 10, 6))[0], every[0][0])


@pytest.mark.parametrize("count", [2, 7, 13, 14, 31, pytest.param(50, marks=pytest.mark.thorough)])
def test_each_token_is_scored_once_with_half_a_window_before_it(gpt, rng, count):
    ids = rng.integers(PAIRS.vocabulary, size=count)
    losses = token_losses(gpt, ids, together=2)
    assert losses.shape == (count - 1,)
    for t in range(1, count):
        found = [
            -log_softmax(gpt.forward(ids[np.newaxis, first:t])[0])[0, -1, ids[t]]
            for first in range(max(0, t - 12), max(0, t - 6) + 1)
        ]
        assert np.isclose(found, losses[t - 1], rtol=1e-9).any()


def test_a_uniform_model_needs_the_bits_of_a_token_for_its_bytes():
    ids = join_texts(PAIRS, TEXTS)
    losses = np.full(len(ids) - 1, np.log(256))
    size = sum(len(text.encode()) for text in TEXTS)
    assert np.isclose(bits_per_byte(losses, ids, token_bytes(PAIRS)), 8 * (len(ids) - 1) / size)


@pytest.mark.equation("eq:mixture")
def test_a_mixture_costs_at_most_the_logarithm_of_a_weight(rng):
    one, other = rng.exponential(3, (2, 400))
    weight = rng.uniform(0.01, 0.9, 400)
    mixed = mix(one, other, weight)
    assert (mixed < weight * one + (1 - weight) * other).all()
    assert (mixed <= one - np.log(weight)).all()
    assert (mixed <= other - np.log(1 - weight)).all()
    mean = weight * np.exp(-one) + (1 - weight) * np.exp(-other)
    assert np.allclose(mixed, -np.log(mean))


@pytest.mark.equation("eq:mixture-weights")
def test_the_best_weight_of_each_kind_is_the_best(rng):
    kinds = rng.integers(3, size=4000)
    one, other = -np.log(rng.random((2, 4000)))
    one[kinds == 1] += 1
    weights = best_weights(one, other, kinds, 4, steps=300)
    assert weights[1] < weights[0]
    assert weights[3] == 0.5  # nothing is known of it
    for kind in range(3):
        of, p = kinds == kind, np.linspace(0.005, 0.995, 199)
        # One more token that only the first predicts, and one that only the other does.
        losses = [
            mix(one[of], other[of], np.full(of.sum(), w)).sum() - np.log(w * (1 - w)) for w in p
        ]
        assert abs(weights[kind] - p[np.argmin(losses)]) < 0.005


@pytest.mark.equation("eq:recent-odds")
def test_the_recent_past_counts_less_the_older_it_is(rng):
    one, other = rng.exponential(3, (2, 60))
    kinds = recent_kinds(one, other)
    for n in range(60):
        ages = np.arange(n)[::-1]
        odds = ((other - one)[:n] * FORGETTING**ages).sum()
        assert kinds[n] == sum(odds >= edge for edge in EDGES)
    assert {*kinds} == {*range(RECENT)}
    assert recent_kinds(other, one).tolist() == (RECENT - 1 - kinds).tolist()


def test_the_recent_past_does_not_see_the_token_that_is_predicted(rng):
    one, other = rng.exponential(3, (2, 60))
    kinds = recent_kinds(one, other)
    for n in (0, 7, 59):
        changed = one.copy()
        changed[n:] += 50
        assert recent_kinds(changed, other)[: n + 1].tolist() == kinds[: n + 1].tolist()


# --- writing ----------------------------------------------------------------------------


def certain(gpt, token):
    """Make a model that writes one token for ever."""
    for array in gpt.parameters().values():
        array[...] = 0
    gpt.decoder.final_norm.beta[...] = 1
    gpt.tokens.table[token] = 100
    return gpt


def test_what_is_written_are_the_texts_of_the_tokens(gpt, rng):
    the = int(PAIRS.encode("x the")[-1])
    pieces = [*write(certain(gpt, the), PAIRS, "a dog ", rng, tokens=3)]
    assert pieces == [" the"] * 3 + [""]
    text = "".join(write(gpt, PAIRS, "a", rng))
    assert text == " the" * 11  # positions


def test_a_character_comes_whole_and_the_end_of_the_text_ends_it(gpt, rng):
    byte = PAIRS.byte_ids["ö".encode()[0]]
    pieces = [*write(certain(gpt, byte), PAIRS, "", rng, tokens=2)]
    assert pieces == ["", "\ufffd", "\ufffd"]
    (end,) = PAIRS.special.values()
    assert [*write(certain(gpt, end), PAIRS, "the", rng)] == [""]


def test_a_prompt_that_is_too_long_is_named(gpt, rng):
    with pytest.raises(ValueError, match="prompt: expected at most 11 tokens, got"):
        next(write(gpt, PAIRS, "the dog " * 9, rng, Sampling()))
