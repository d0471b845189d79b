import copy

import numpy as np
import pytest
from helpers.witnesses import (
    assert_close,
    assert_dtype_is_kept,
    assert_every_parameter_moves,
    assert_nothing_is_modified,
    causal,
    generators,
    normal,
    padding,
    randomise,
    scattered,
    sizes,
)
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.foundation.names import sizes as count
from transformer_core.layers import AttentionSpec, LayerSpec, NormSpec, OwnReadout
from transformer_core.models import Gpt, StackSpec, beam_search, greedy_search

V, LENGTH, END = 9, 8, 1
RMS = NormSpec("rms_norm", 1e-6)
LLAMA = {
    "attention": AttentionSpec(4, 6, 3, bias=False, key_heads=2, transform="rotary_halves"),
    "norm": RMS,
    "feed_forward": "swiglu",
}
NORMALISED = AttentionSpec(4, 6, 3, bias=False, key_heads=1, transform="qk_norm_rotary")
VARIANTS = {
    "GPT-2": {},
    "Llama": LLAMA,
    "Llama, QK-norm": LLAMA | {"attention": NORMALISED},
    "Post-LN": {"placement": "post"},
    "untied": {"tied": False},
    "pairs that share rows": LLAMA | {"pairs": 5},
    "dropout": LLAMA | {"dropout": 0.3},
    "dropout, learned positions": {"dropout": 0.3},
}
every_variant = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
variants = st.sampled_from([v for name, v in VARIANTS.items() if "dropout" not in name])

IDS = np.array([[3, 1, 3, 5, 1], [4, 3, 1, 8, 8]])  # repeated
TARGETS = np.array([[1, 3, 5, 1, 7], [3, 1, 8, 8, 2]])
WEIGHTS = np.array([[1, 1, 0, 1, 2.0], [1, 0.5, 0, 0, 0]])
KEEP = scattered(np.random.default_rng(2), 2, 4, 5, 5)
GIVEN = {"weights": WEIGHTS, "keep": KEEP}


def build(variant, rng, dtype=np.float64, layers=2):
    given = {"attention": 4, "feed_forward": "gelu_tanh", "placement": "pre"} | variant
    tied, pairs = given.pop("tied", True), given.pop("pairs", 0)
    spec = LayerSpec(12, hidden_width=7, dtype=dtype, **given)
    return randomise(Gpt(spec, StackSpec(V, LENGTH, layers), rng, tied, pairs), rng)


@pytest.fixture
def gpt(rng):
    return build(LLAMA, rng)


@st.composite
def models(draw):
    """A model, and tokens for it, fewer than its longest."""
    rng = draw(generators)
    model = build(draw(variants), rng)
    return model, rng.integers(V, size=(draw(sizes), draw(st.integers(2, LENGTH))))


def forward(model):
    """Dropout falls the same way at every call."""
    return model.forward(IDS, KEEP, np.random.default_rng(3))


def step(model):
    return model.loss_and_gradients(IDS, TARGETS, **GIVEN, rng=np.random.default_rng(3))


def kept(state):
    """The keys and values of all layers."""
    return [array for layer in state.layers for array in layer]


# --- what it is made of -----------------------------------------------------------------


def test_the_specification_alone_makes_a_model_of_2019_and_one_of_today(rng):
    old = LayerSpec(64, 4, 256, "pre", feed_forward="gelu_tanh")
    new = AttentionSpec(4, bias=False, key_heads=2, transform="rotary_halves")
    new = LayerSpec(64, new, 168, "pre", NormSpec("rms_norm"), "swiglu")
    stack = StackSpec(500, 32, 3)
    parts = count(Gpt(old, stack, rng).parameters(), depth=2)
    assert parts == {
        "tokens.table": 500 * 64,
        "positions.table": 32 * 64,
        **{f"decoder.layer_{i}": 12 * 64**2 + 13 * 64 for i in range(3)},
        "decoder.final_norm": 2 * 64,
    }
    parts = count(Gpt(new, stack, rng).parameters(), depth=2)
    assert parts == {
        "tokens.table": 500 * 64,
        **{f"decoder.layer_{i}": 3 * 64**2 + 3 * 168 * 64 + 2 * 64 for i in range(3)},
        "decoder.final_norm": 64,
    }
    untied = count(Gpt(new, stack, rng, tied=False).parameters(), depth=2)
    assert untied == parts | {"readout.weight": 500 * 64}


# --- witnesses --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.equation("eq:gpt-backward")
@every_variant
def test_gradients_agree_with_the_witnesses(check, rng, variant):
    model = build(variant, rng, check.witness.dtype)
    check.model(
        lambda: forward(model),
        lambda dlogits, cache: model.backward(dlogits, cache)[-1],
        model.parameters(),
    )


@pytest.mark.equation("eq:gpt-backward")
@pytest.mark.equation("eq:tied-embedding-backward")
@pytest.mark.parametrize("name", ["GPT-2", "Llama", "dropout"])
def test_loss_gradients_agree_with_the_witnesses(check, rng, name):
    model = build(VARIANTS[name], rng, check.witness.dtype, layers=1)
    check.model(
        lambda: step(model),
        lambda dloss, grads: {name: dloss * grad for name, grad in grads.items()},
        model.parameters(),
    )


# --- theorems ---------------------------------------------------------------------------


@pytest.mark.equation("eq:gpt")
@given(models(), generators)
def test_no_position_sees_a_later_one(drawn, rng):
    model, ids = drawn
    logits, cache = model.forward(ids)
    now = int(rng.integers(ids.shape[1]))
    changed = ids.copy()
    changed[:, now + 1 :] = rng.integers(V, size=ids[:, now + 1 :].shape)
    assert np.allclose(model.forward(changed)[0][:, : now + 1], logits[:, : now + 1], atol=1e-9)
    assert np.allclose(model.forward(ids[:, : now + 1])[0], logits[:, : now + 1], atol=1e-9)


@pytest.mark.equation("eq:gpt-loss")
@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Post-LN"])
def test_one_pass_is_all_prefixes(rng, name):
    """The loss of a text and its gradients are the means of those of its prefixes."""
    model, (length,) = build(VARIANTS[name], rng), IDS.shape[1:]
    loss, grads = model.loss_and_gradients(IDS, TARGETS)
    losses, mean = [], {name: np.zeros_like(grad) for name, grad in grads.items()}
    for t in range(length):
        last = np.arange(t + 1) == np.full((2, 1), t)
        one, of_prefix = model.loss_and_gradients(IDS[:, : t + 1], TARGETS[:, : t + 1], last)
        losses.append(one)
        for name, grad in of_prefix.items():
            mean[name] += grad / length
    assert np.isclose(np.mean(losses), loss, rtol=1e-12)
    assert_close(mean, grads)


@pytest.mark.equation("eq:cached-attention")
@given(models(), generators)
def test_however_it_is_cut_prefilling_is_the_forward_pass(drawn, rng):
    """Of the cache it leaves the same keys and values, whatever the cuts."""
    model, ids = drawn
    expected, _ = model.forward(ids)
    _, whole = model.prefill(ids)
    cuts = sorted(rng.choice(np.arange(1, ids.shape[1]), rng.integers(ids.shape[1]), False))
    state = model.begin(len(ids))
    for part in np.split(ids, cuts, axis=1):
        logits, state = model.prefill(part, state)
        assert np.allclose(logits, expected[:, state.length - 1], rtol=1e-8, atol=1e-8)
    for one, other in zip(kept(state), kept(whole), strict=True):
        assert np.allclose(one, other, rtol=1e-8, atol=1e-8)


def test_the_first_token_of_a_step_is_paired_with_the_last_one_read(rng):
    model = build(VARIANTS["pairs that share rows"], rng)
    expected, _ = model.forward(IDS)
    _, state = model.prefill(IDS[:, :3])
    logits, _ = model.step(IDS[:, 3], state)
    assert np.allclose(logits, expected[:, 3], rtol=1e-9, atol=1e-9)
    logits, _ = model.step(IDS[::-1, 3], state.select(np.array([1, 0])))
    assert np.allclose(logits, expected[::-1, 3], rtol=1e-9, atol=1e-9)


@given(models(), generators)
def test_what_was_read_can_be_taken_back(drawn, rng):
    """Other tokens are read, and the state goes back: the first ones are untouched."""
    model, ids = drawn
    expected, _ = model.forward(ids)
    length = int(rng.integers(ids.shape[1]))
    others = rng.integers(V, size=ids.shape)
    _, longer = model.prefill(np.where(np.arange(ids.shape[1]) < length, ids, others))
    before = [array.copy() for array in kept(longer)]
    logits, _ = model.score(ids[:, length:], longer.first(length), ids.shape[1] - length)
    assert np.allclose(logits, expected[:, length:], rtol=1e-8, atol=1e-8)
    assert all(map(np.array_equal, kept(longer), before))


@given(models())
def test_the_rows_of_a_batch_are_its_sequences_one_by_one(drawn):
    model, ids = drawn
    logits, state = model.prefill(ids[:, :-1])
    for b in range(len(ids)):
        alone, _ = model.prefill(ids[b : b + 1, :-1])
        assert np.allclose(alone[0], logits[b], rtol=1e-8, atol=1e-8)
    logits, _ = model.step(ids[:, -1], state)
    rows = np.arange(len(ids))[::-1]
    turned, _ = model.step(ids[rows, -1], state.select(rows))
    assert np.allclose(turned, logits[rows], rtol=1e-8, atol=1e-8)


def test_prompts_of_different_lengths_go_on_as_each_does_alone(gpt, rng):
    prompts, lengths = rng.integers(2, V, (4, 6)), np.array([1, 4, 2, 6])
    tokens, ends = greedy_search(gpt, 4, start=prompts, start_lengths=lengths, end=END)
    beams, *_ = beam_search(gpt, 4, start=prompts, start_lengths=lengths, end=END, beam=1)
    np.testing.assert_array_equal(beams[:, 0, : tokens.shape[1]], tokens)
    for row, (prompt, n) in enumerate(zip(prompts, lengths, strict=True)):
        written = list(prompt[:n])
        while len(written) <= LENGTH and (len(written) == n or written[-1] != END):
            logits, _ = gpt.forward(np.array([written]))
            written.append(int(logits[0, -1].argmax()))
        np.testing.assert_array_equal(tokens[row, : ends[row]], written[1:])


@pytest.mark.parametrize("name", ["Llama", "Llama, QK-norm"])
def test_rotated_scores_know_distances_alone(rng, name):
    """What is read first, and hidden from what comes after it, shifts all positions by one."""
    model, before = build(VARIANTS[name], rng), rng.integers(V, size=(2, 1))
    shifted = causal(6)
    shifted[1:, 0] = False
    logits, _ = model.forward(np.concatenate([before, IDS], axis=1), shifted)
    assert np.allclose(logits[:, 1:], model.forward(IDS)[0], rtol=1e-9, atol=1e-9)
    learned = build({}, np.random.default_rng(1))
    logits, _ = learned.forward(np.concatenate([before, IDS], axis=1), shifted)
    assert not np.allclose(logits[:, 1:], learned.forward(IDS)[0], atol=0.1)


@pytest.mark.equation("eq:tied-embedding-backward")
@pytest.mark.parametrize("name", ["GPT-2", "Llama"])
def test_a_tied_table_receives_both_terms(rng, name):
    model = build(VARIANTS[name], rng)
    table = model.tokens.table
    untied = copy.copy(model)
    untied.readout = OwnReadout(table.shape[1], V, np.random.default_rng(0), bias=False)
    untied.readout.weight = table.T
    loss, grads = step(untied)
    tied_loss, tied_grads = step(model)
    assert np.isclose(tied_loss, loss)
    both = grads["tokens.table"] + grads.pop("readout.weight").T
    assert not np.allclose(both, grads["tokens.table"])
    assert_close(tied_grads, grads | {"tokens.table": both})


def test_a_target_that_does_not_count_changes_nothing(gpt, rng):
    loss, grads = step(gpt)
    others = np.where(WEIGHTS > 0, TARGETS, rng.integers(V, size=TARGETS.shape))
    again, same = gpt.loss_and_gradients(IDS, others, **GIVEN)
    assert again == loss and all(np.array_equal(same[name], grads[name]) for name in grads)


def test_documents_packed_in_one_row_are_the_documents_one_by_one(gpt):
    """With a mask that hides the others, and rotations, which know distances alone."""
    number = np.array([0, 0, 1, 1, 1])
    logits, _ = gpt.forward(IDS[:1], number[:, np.newaxis] == number)
    parts = [gpt.forward(IDS[:1, number == n])[0] for n in (0, 1)]
    assert np.allclose(logits, np.concatenate(parts, axis=1), rtol=1e-9, atol=1e-9)


def test_what_stands_in_padding_does_not_matter(gpt):
    keep, weights = padding([5, 3], 5), np.arange(5) < np.array([[4], [2]])
    others = np.where(keep[:, 0, 0], IDS, 2)
    loss, grads = gpt.loss_and_gradients(IDS, TARGETS, weights, keep)
    other_loss, other_grads = gpt.loss_and_gradients(others, TARGETS, weights, keep)
    assert np.isclose(other_loss, loss)
    assert_close(other_grads, grads)


def test_a_model_that_knows_nothing_loses_the_logarithm_of_the_vocabulary(rng):
    model = build({"tied": False}, rng)
    model.readout.weight[...] = 0
    assert np.isclose(step(model)[0], np.log(V))


# --- the contract -----------------------------------------------------------------------


def test_nothing_is_dropped_without_a_generator(rng):
    model = build({"dropout": 0.5}, rng)
    evaluated, _ = model.forward(IDS)
    assert not np.allclose(evaluated, model.forward(IDS, rng=np.random.default_rng(3))[0])
    assert np.array_equal(evaluated, model.forward(IDS)[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64], ids=lambda d: d.__name__)
@every_variant
def test_the_dtype_is_kept(rng, variant, dtype):
    model = build(variant, rng, dtype)
    logits, cache = forward(model)
    _, grads = model.backward(normal(rng, logits.shape, dtype), cache)
    loss, loss_grads = step(model)
    written, state = model.prefill(IDS)
    arrays = logits, loss, written, *kept(state), *grads.values(), *loss_grads.values()
    assert_dtype_is_kept(dtype, cache, *arrays)


@every_variant
def test_every_parameter_has_a_gradient_of_its_shape_and_moves(rng, variant):
    model = build(variant, rng)
    assert_every_parameter_moves(model.parameters(), step(model)[1])


@every_variant
def test_nothing_that_is_given_is_modified(rng, variant):
    model = build(variant, rng)
    _, state = model.prefill(IDS)

    def go_on(model):
        step(model)
        model.prefill(IDS[:, :2], state)

    given = IDS, TARGETS, WEIGHTS, KEEP, *kept(state)
    dlogits = normal(rng, forward(model)[0].shape)
    assert_nothing_is_modified(model, forward, go_on, given, dlogits)


# --- errors -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"ids": IDS + 1}, "ids: expected ids from 0 to 8, got 9"),
        ({"ids": IDS[0]}, r"ids: expected shape \(B, T\), got \(5,"),
        ({"ids": np.tile(IDS, 2)}, "ids: expected at most 8 positions, got 10"),
        ({"keep": KEEP[..., :3]}, r"keep: .* broadcasts to \(2, 4, 5, 5\), got"),
        ({"keep": KEEP.astype(int)}, "keep: expected booleans"),
    ],
)
def test_bad_input_is_named(gpt, changed, message):
    with pytest.raises(ValueError, match=message):
        gpt.forward(**{"ids": IDS} | changed)


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"targets": TARGETS[:1]}, r"targets: expected shape \(2, 5\), got \(1, 5\)"),
        ({"targets": TARGETS + 2}, "targets: expected ids from 0 to 8, got"),
        ({"weights": 0 * WEIGHTS}, "weights: expected at least one counted position"),
    ],
)
def test_a_bad_loss_is_named(gpt, changed, message):
    with pytest.raises(ValueError, match=message):
        gpt.loss_and_gradients(**{"ids": IDS, "targets": TARGETS} | changed)


def test_what_cannot_go_on_is_named(gpt):
    _, state = gpt.prefill(IDS)
    for tokens, message in [
        (np.tile(IDS, 2), "ids: expected at most 8 positions, got 15"),
        (IDS[:1, :2], r"past key: expected shape \(1, 2, T, 6\), got \(2, "),
        (IDS[:, :2] + 6, "ids: expected ids from 0 to 8, got 9"),
    ]:
        with pytest.raises(ValueError, match=message):
            gpt.prefill(tokens, state)
    with pytest.raises(ValueError, match=r"tokens: expected shape \(B\), got \(2, 5\)"):
        gpt.step(IDS, state)
    with pytest.raises(ValueError, match="state: expected one of the class GptState"):
        gpt.step(IDS[:, 0], state.layers)
