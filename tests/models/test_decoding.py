from itertools import product

import numpy as np
import pytest
from helpers.cases import split_variant
from helpers.witnesses import arrays_in, generators, padding, randomise, sizes
from hypothesis import assume, given
from hypothesis import strategies as st

from transformer_core.layers import LayerSpec
from transformer_core.models import EncoderDecoder, StackSpec, beam_search, greedy_search
from transformer_core.ops import softmax

PAD, START, END, A, B = range(5)
IDS = {"start": START, "end": END}
SOURCE = np.array([[3, 5, 3, 4], [4, 2, PAD, PAD]])
SOURCE_LENGTHS = np.array([4, 2])

penalties = st.sampled_from([0.0, 0.6, 1.0, 2.0])
variants = st.fixed_dictionaries(
    {
        "placement": st.sampled_from(["post", "pre"]),
        "feed_forward": st.sampled_from(["relu", "gelu_tanh"]),
        "tied": st.booleans(),
        "shared": st.booleans(),
    }
)


@st.composite
def readers(draw):
    """A model of random shape and options, and padded sources for it."""
    rng, variant = draw(generators), draw(variants)
    heads, half, longest = (draw(sizes) for _ in range(3))
    batch = draw(st.integers(1, 3))
    vocabulary = draw(st.integers(3, 6))
    spec, others = split_variant(2 * half * heads, heads, draw(sizes), variant)
    read = vocabulary if variant["shared"] else 7
    model = EncoderDecoder(
        spec,
        StackSpec(read, longest, draw(st.integers(1, 2))),
        StackSpec(vocabulary, draw(sizes), draw(st.integers(1, 2))),
        rng,
        **others,
    )
    source = rng.integers(len(model.source_embedding.table), size=(batch, longest))
    return randomise(model, rng), source, rng.integers(1, longest + 1, batch)


def build(rng, dtype=np.float64):
    spec = LayerSpec(6, 2, 7, "pre", dtype=dtype)
    model = EncoderDecoder(spec, StackSpec(6, 4, 1), StackSpec(5, 4, 2), rng)
    return randomise(model, rng)


class Chain:
    """A model that looks at nothing but the newest token u: row u of p holds p(v | u)."""

    vocabulary, longest = 5, 6

    def __init__(self, rows):
        p = np.full((5, 5), 1e-9)
        for u, row in rows.items():
            p[u, list(row)] = list(row.values())
        self.logits = np.log(p)

    def begin(self, *inputs):
        return self

    def select(self, rows):
        return self

    def step(self, tokens, state):
        return self.logits[tokens], state


def read_chain(search, rows, **settings):
    """Search once, with a source that does not matter."""
    source = np.array([[3]]), np.array([1])
    return [result[0] for result in search(Chain(rows), *source, **IDS, **settings)]


def log_p(model, source, tokens, start=START):
    """The log-probability of each of some tokens after the start, recomputed in one pass."""
    shifted = np.array([[start, *tokens[:-1]]])
    p, _ = softmax(model.forward(source[np.newaxis], shifted)[0])
    return np.log(p[0, np.arange(len(tokens)), tokens])


# --- step by step -----------------------------------------------------------------------


@pytest.mark.equation("eq:cached-attention")
@given(readers(), generators)
def test_step_by_step_the_logits_are_those_of_the_whole_target(drawn, rng):
    model, source, lengths = drawn
    keep = padding(lengths, source.shape[1])
    shape = len(source), model.longest
    shifted = rng.integers(len(model.target_embedding.table), size=shape)
    expected, _ = model.forward(source, shifted, keep)
    state = model.begin(source, lengths)
    for t in range(model.longest):
        logits, state = model.step(shifted[:, t], state)
        assert np.allclose(logits, expected[:, t], rtol=1e-8, atol=1e-8)


def test_step_by_step_float32_is_kept_and_differs_by_rounding(rng):
    model = build(rng, np.float32)
    shifted = rng.integers(5, size=(2, 4))
    keep = padding(SOURCE_LENGTHS, 4)
    expected, _ = model.forward(SOURCE, shifted, keep)
    state = model.begin(SOURCE, SOURCE_LENGTHS)
    for t in range(4):
        logits, state = model.step(shifted[:, t], state)
        numbers = [a for a in arrays_in(state) if a.dtype != bool]
        assert {a.dtype for a in [logits, *numbers]} == {np.dtype(np.float32)}
        assert np.allclose(logits, expected[:, t], rtol=1e-4, atol=1e-4)


def test_a_state_can_be_continued_in_two_ways(rng):
    model = build(rng)
    _, state = model.step(np.array([START, START]), model.begin(SOURCE[:, :2], np.array([2, 2])))
    copies = [array.copy() for array in arrays_in(state)]
    first, _ = model.step(np.array([3, 4]), state)
    second, _ = model.step(np.array([4, 3]), state)
    again, _ = model.step(np.array([3, 4]), state)
    assert np.array_equal(again, first) and not np.allclose(second, first)
    assert all(map(np.array_equal, arrays_in(state), copies))


def test_the_source_is_read_once(rng, monkeypatch):
    model = build(rng)
    calls = []
    encode = model.encoder.forward
    monkeypatch.setattr(model.encoder, "forward", lambda *a: calls.append("encoder") or encode(*a))
    for layer in model.decoder.layers:
        cross = layer.cross_attention.branch
        monkeypatch.setattr(
            cross.key_value,
            "forward",
            lambda x, forward=cross.key_value.forward: calls.append("keys") or forward(x),
        )
    greedy_search(model, SOURCE, SOURCE_LENGTHS, start=START, end=END)
    assert calls == ["encoder", "keys", "keys"]


# --- greedy search ----------------------------------------------------------------------


@pytest.mark.equation("eq:greedy-search")
@given(readers(), generators)
def test_greedy_search_takes_the_likeliest_token_after_a_full_recomputation(drawn, rng):
    model, source, lengths = drawn
    start, end = (int(i) for i in rng.integers(3, size=2))
    longest = int(rng.integers(1, model.longest + 1))
    tokens, written = greedy_search(
        model, source, lengths, start=start, end=end, padding=1, longest=longest
    )
    assert tokens.shape == (len(source), written.max())
    for row, n, ids, length in zip(tokens, written, source, lengths, strict=True):
        logits, _ = model.forward(ids[np.newaxis, :length], np.array([[start, *row[: n - 1]]]))
        assert np.array_equal(row[:n], logits[0].argmax(axis=-1))
        assert end not in row[: n - 1] and (n == longest or row[n - 1] == end)
        assert (row[n:] == 1).all()


def test_a_target_that_has_ended_stays_so_while_others_go_on():
    model = Chain({START: {A: 0.6, END: 0.4}, A: {A: 1.0}, PAD: {A: 1.0}})
    step_of_chain = model.step

    def step(tokens, state):
        logits, _ = step_of_chain(tokens, state)
        return logits + np.eye(5)[END] * [[0], [1]], state  # the second one ends

    model.step = step
    tokens, lengths = greedy_search(model, SOURCE, SOURCE_LENGTHS, **IDS, padding=PAD)
    assert tokens.tolist() == [[A] * 6, [END, *[PAD] * 5]]
    assert list(lengths) == [6, 1]


# --- beam search ------------------------------------------------------------------------


@given(readers(), penalties)
def test_a_beam_of_one_is_greedy_search(drawn, length_penalty):
    model, source, lengths = drawn
    expected, written = greedy_search(model, source, lengths, **IDS)
    tokens, beam_lengths, _ = beam_search(
        model, source, lengths, **IDS, beam=1, length_penalty=length_penalty
    )
    assert np.array_equal(tokens[:, 0], expected)
    assert np.array_equal(beam_lengths[:, 0], written)


@pytest.mark.slow
@pytest.mark.equation("eq:beam-score")
@given(readers(), penalties, sizes)
def test_scores_are_those_of_teacher_forcing(drawn, length_penalty, beam):
    model, source, lengths = drawn
    found = beam_search(model, source, lengths, **IDS, beam=beam, length_penalty=length_penalty)
    for ids, s, *row in zip(source, lengths, *found, strict=True):
        for tokens, n, score in zip(*row, strict=True):
            if score > -np.inf:
                total = log_p(model, ids[:s], tokens[:n]).sum()
                assert np.isclose(score, total / n**length_penalty, rtol=1e-9)
                assert END not in tokens[: n - 1]
                assert n == model.longest or tokens[n - 1] == END
                assert (tokens[n:] == PAD).all()


def every_target(vocabulary, longest):
    """All that can be written: up to an end token, or as long as may be."""
    others = [v for v in range(vocabulary) if v != END]
    for n in range(1, longest + 1):
        for begin in product(others, repeat=n - 1):
            yield from ([*begin, last] for last in range(vocabulary))


@pytest.mark.slow
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0, 2.0])
def test_a_beam_as_wide_as_everything_finds_the_best(rng, length_penalty):
    model = build(rng)
    targets = {
        tuple(target) for target in every_target(5, 3) if target[-1] == END or len(target) == 3
    }
    assert len(targets) == 1 + 4 + 16 * 5
    tokens, lengths, scores = beam_search(
        model, SOURCE, SOURCE_LENGTHS, **IDS, beam=100, length_penalty=length_penalty, longest=3
    )
    for b, s in enumerate(SOURCE_LENGTHS):
        by_hand = {
            target: log_p(model, SOURCE[b, :s], np.array(target)).sum()
            / len(target) ** length_penalty
            for target in targets
        }
        found = [
            tuple(row[:n].tolist())
            for row, n, score in zip(tokens[b], lengths[b], scores[b], strict=True)
            if score > -np.inf
        ]
        assert found == sorted(by_hand, key=by_hand.get, reverse=True)
        assert np.allclose(scores[b, : len(found)], sorted(by_hand.values())[::-1])
        assert (scores[b, len(found) :] == -np.inf).all()


@given(readers(), penalties, sizes)
def test_what_is_found_is_in_order_and_never_the_same_twice(drawn, length_penalty, beam):
    model, source, lengths = drawn
    tokens, written, scores = beam_search(
        model, source, lengths, **IDS, beam=beam, length_penalty=length_penalty
    )
    assert tokens.shape[:2] == written.shape == scores.shape == (len(source), beam)
    for b in range(len(source)):
        real = scores[b] > -np.inf
        assert real[0]
        assert (np.diff(scores[b, real]) <= 0).all()
        rows = zip(tokens[b, real].tolist(), written[b, real].tolist(), strict=True)
        found = [tuple(row[:n]) for row, n in rows]
        assert len(set(found)) == len(found)


@pytest.mark.thorough
@given(readers(), penalties, sizes)
def test_each_source_is_searched_by_itself(drawn, length_penalty, beam):
    model, source, lengths = drawn
    settings = {**IDS, "beam": beam, "length_penalty": length_penalty}
    together = beam_search(model, source, lengths, **settings)
    for b, s in enumerate(lengths):
        alone = beam_search(model, source[b : b + 1, :s], lengths[b : b + 1], **settings)
        steps = alone[0].shape[2]
        assert np.allclose(alone[2][0], together[2][b], rtol=1e-9)
        real = alone[2][0] > -np.inf
        assume(np.all(np.diff(alone[2][0, real]) < -1e-9))  # rounding orders equals
        assert np.array_equal(alone[0][0, real], together[0][b, real, :steps])
        assert np.array_equal(alone[1][0, real], together[1][b, real])


GARDEN = {START: {A: 0.6, B: 0.4}, A: {A: 0.4, B: 0.3, END: 0.3}, B: {END: 1.0}}


def test_a_beam_finds_what_greedy_search_misses():
    tokens, _ = read_chain(greedy_search, GARDEN, longest=2)
    assert list(tokens) == [A, A]  # 0.6 * 0.4
    tokens, lengths, scores = read_chain(beam_search, GARDEN, beam=2, length_penalty=0, longest=2)
    assert list(tokens[0]) == [B, END]  # 0.4 * 1
    assert np.allclose(np.exp(scores), [0.4, 0.24])


@pytest.mark.parametrize("length_penalty, best", [(0, [END]), (1, [A, B, END])])
def test_the_penalty_decides_between_short_and_long(length_penalty, best):
    rows = {START: {END: 0.5, A: 0.5}, A: {B: 0.8, END: 0.2}, B: {END: 0.9, A: 0.1}}
    tokens, lengths, scores = read_chain(beam_search, rows, beam=4, length_penalty=length_penalty)
    assert list(tokens[0, : lengths[0]]) == best
    assert np.isclose(np.exp(scores[0]), {0: 0.5, 1: 0.36 ** (1 / 3)}[length_penalty])


# --- errors -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"source": SOURCE[0]}, r"source: expected shape \(B, S\), got \(4,"),
        ({"source": SOURCE + 3}, "ids: expected ids from 0 to 5, got"),
        ({"source": np.tile(SOURCE, 2)}, "source: expected at most 4 positions, got 8"),
        ({"source_lengths": np.array([4, 0])}, "source_lengths: .* at least 1 token"),
        ({"source_lengths": np.array([4, 5])}, "lengths: .* from 0 to 4, got"),
        ({"source_lengths": np.array([4])}, r"source_lengths: .* \(2\), got \(1,"),
        ({"start": 5}, "start: expected ids from 0 to 4, got 5"),
        ({"end": -1}, "end: expected ids from 0 to 4, got -1"),
        ({"padding": 5}, "padding: expected ids from 0 to 4, got 5"),
        ({"longest": 0}, "longest: expected a whole number of at least 1, got 0"),
        ({"longest": 5}, "longest: expected at most 4 tokens, got 5"),
    ],
)
@pytest.mark.parametrize("search, more", [(greedy_search, {}), (beam_search, {"beam": 2})])
def test_bad_input_is_named(rng, search, more, changed, message):
    given = {"source": SOURCE, "source_lengths": SOURCE_LENGTHS, **IDS, **more} | changed
    inputs = given.pop("source"), given.pop("source_lengths")
    with pytest.raises(ValueError, match=message):
        search(build(rng), *inputs, **given)


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"beam": 0}, "beam: expected a whole number of at least 1, got 0"),
        ({"length_penalty": -1}, "length_penalty: expected a number from 0 to 10"),
        ({"length_penalty": 64}, "length_penalty: expected a number from 0 to 10"),
    ],
)
def test_bad_settings_of_the_beam_are_named(rng, changed, message):
    with pytest.raises(ValueError, match=message):
        beam_search(build(rng), SOURCE, SOURCE_LENGTHS, **IDS, **({"beam": 2} | changed))


def test_a_step_too_far_and_tokens_of_another_shape_are_named(rng):
    model = build(rng)
    state = model.begin(SOURCE, SOURCE_LENGTHS)
    for tokens in (np.array([1]), np.array([[1, 1]])):
        with pytest.raises(ValueError, match=r"tokens: expected shape \(2\), got"):
            model.step(tokens, state)
    for _ in range(4):
        _, state = model.step(np.array([1, 1]), state)
    with pytest.raises(ValueError, match="tokens: expected at most 4 positions, got 5"):
        model.step(np.array([1, 1]), state)
