import copy

import numpy as np
import pytest
from helpers.cases import split_variant
from helpers.exact import assert_exact, symbols
from helpers.witnesses import (
    assert_close,
    assert_dtype_is_kept,
    assert_every_parameter_moves,
    assert_nothing_is_modified,
    generators,
    normal,
    padding,
    randomise,
    sizes,
)
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.foundation.names import sizes as count
from transformer_core.layers import AttentionSpec, LayerSpec, OwnReadout
from transformer_core.models import Bert, StackSpec
from transformer_core.ops import (
    cross_entropy,
    cross_entropy_backward,
    dropout,
    embedding,
    embedding_backward,
    tied_readout,
    tied_readout_backward,
)
from transformer_core.training import combine

VARIANTS = {
    "text 004": {},
    "tied": {"tied": True},
    "GELU": {"feed_forward": "gelu"},
    "GELU, tanh": {"feed_forward": "gelu_tanh"},
    "embedding LayerNorm": {"embedding_norm": True},
    "Pre-LN": {"placement": "pre"},
    "no final LayerNorm": {"final_norm": False},
    "attention biases": {"attention": AttentionSpec(2)},
    "segments": {"segments": 2},
    "dropout": {"dropout": 0.3},
}
VARIANTS["everything"] = {
    name: value for settings in VARIANTS.values() for name, value in settings.items()
}
variants = st.fixed_dictionaries(
    {
        "tied": st.booleans(),
        "feed_forward": st.sampled_from(["relu", "gelu", "gelu_tanh"]),
        "embedding_norm": st.booleans(),
        "placement": st.sampled_from(["post", "pre"]),
        "final_norm": st.booleans(),
        "segments": st.sampled_from([0, 3]),
    }
)
every_variant = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)

V, LENGTH, PAD = 8, 6, 0
UNBIASED = AttentionSpec(2, bias=False)
IDS = np.array([[3, 1, 3, 5, 1], [4, 3, 1, PAD, PAD]])  # repeated, and padded
TARGETS = np.array([[3, 2, 3, 6, 7], [4, 6, 1, PAD, PAD]])
MASKED = np.array([[0, 1, 1, 0, 1], [1, 1, 0, 0, 0]], bool)
KEEP = padding([5, 3], 5)
SEGMENTS = np.array([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]])


def build(variant, rng, dtype=np.float64):
    spec, others = split_variant(6, UNBIASED, 7, variant, "post", dtype)
    return randomise(Bert(spec, StackSpec(V, LENGTH, 2), rng, **others), rng)


def inputs(model):
    """What ``forward`` is given after ids and masked; dropout falls the same way at every call."""
    return {
        "keep": KEEP,
        "segment_ids": SEGMENTS if model.segments else None,
        "rng": np.random.default_rng(3),
    }


def read_out(model, masked=MASKED):
    return model.forward(IDS, masked, **inputs(model))


def step(model):
    return model.loss_and_gradients(IDS, TARGETS, MASKED, **inputs(model))


# --- the seed's model -------------------------------------------------------------------


def seed_004(rng, **variant):
    attention = AttentionSpec(4, bias=False)
    spec, others = split_variant(192, attention, 768, variant, "post", np.float32)
    return Bert(spec, StackSpec(8192, 64, 3), rng, **others)


def test_the_model_of_the_seed_has_4_498_880_parameters(rng):
    parameters = seed_004(rng).parameters()
    parts = count(parameters, depth=2)
    assert parts == {
        "tokens.table": 1_572_864,
        "positions.table": 12_288,
        "encoder.layer_0": 444_096,
        "encoder.layer_1": 444_096,
        "encoder.layer_2": 444_096,
        "encoder.final_norm": 384,
        "readout.weight": 1_572_864,
        "readout.bias": 8_192,
    }
    assert sum(parts.values()) == 4_498_880
    assert {array.dtype for array in parameters.values()} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    "option, more",
    [
        ({"tied": True}, -1_572_864),
        ({"embedding_norm": True}, 384),
        ({"attention": 4}, 3 * 4 * 192),
        ({"attention": AttentionSpec(4, 32, 96, False)}, 3 * 192 * 4 * 2 * (96 - 64)),
        ({"segments": 2}, 384),
        ({"final_norm": False}, -384),
        ({"placement": "pre", "feed_forward": "gelu", "dropout": 0.1}, 0),
    ],
)
def test_what_an_option_adds_to_the_parameters(rng, option, more):
    model = seed_004(rng, **option)
    total = sum(array.size for array in model.parameters().values())
    assert total == 4_498_880 + more


# --- witnesses --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.equation("eq:bert-backward")
@pytest.mark.equation("eq:bert-input-backward")
@pytest.mark.equation("eq:masked-rows-backward")
@every_variant
def test_gradients_agree_with_the_witnesses(check, rng, variant):
    model = build(variant, rng, check.witness.dtype)
    check.model(
        lambda: read_out(model),
        lambda dlogits, cache: model.backward(dlogits, cache)[-1],
        model.parameters(),
    )


@pytest.mark.slow
@pytest.mark.equation("eq:bert-backward")
@pytest.mark.parametrize("variant", ["text 004", "everything"])
def test_gradients_of_every_position_agree_with_the_witnesses(check, rng, variant):
    model = build(VARIANTS[variant], rng, check.witness.dtype)
    check.model(
        lambda: read_out(model, masked=None),
        lambda dlogits, cache: model.backward(dlogits, cache)[-1],
        model.parameters(),
    )


@pytest.mark.equation("eq:bert-tied-backward")
@pytest.mark.parametrize("variant", ["tied", "everything"])
def test_loss_gradients_agree_with_the_witnesses(check, rng, variant):
    model = build(VARIANTS[variant], rng, check.witness.dtype)
    check.model(
        lambda: step(model),
        lambda dloss, grads: {name: dloss * grad for name, grad in grads.items()},
        model.parameters(),
    )


@pytest.mark.equation("eq:bert-input-backward")
def test_gradients_of_the_sum_of_embeddings_are_exact(rng):
    spec = LayerSpec(2, 1, 1, "post")
    model = Bert(spec, StackSpec(3, 3, 1), rng, segments=2)
    tables = symbols("e", 3, 2), symbols("s", 2, 2), symbols("p", 3, 2)
    model.tokens.table, model.segments.table, model.positions.table = tables
    x, cache = model.embed(np.array([[2, 0], [2, 2]]), np.array([[0, 1], [1, 1]]))
    dx = symbols("dx", 2, 2, 2)
    grads = model.embed_backward(dx, cache)
    parts = [grads[part]["table"] for part in ("tokens", "segments", "positions")]
    assert_exact((dx * x).sum(), tables, parts)


@pytest.mark.equation("eq:masked-rows-backward")
@pytest.mark.equation("eq:bert-tied-backward")
def test_gradients_of_a_tied_readout_of_masked_rows_are_exact():
    table, bias = symbols("e", 3, 2), symbols("b", 3)
    rows, ids_cache = embedding(np.array([2, 0, 2, 1]), table)
    masked, masked_cache = embedding(np.array([0, 3]), rows)
    logits, readout_cache = tied_readout(masked, table, bias)
    dlogits = symbols("dz", 2, 3)
    dmasked, dtable, dbias = tied_readout_backward(dlogits, readout_cache)
    drows = embedding_backward(dmasked, masked_cache)
    assert (drows[1:3] == 0).all()
    dtable = dtable + embedding_backward(drows, ids_cache)
    assert_exact((dlogits * logits).sum(), (table, bias), (dtable, dbias))


# --- masked rows ------------------------------------------------------------------------


@every_variant
def test_masked_rows_are_those_of_the_full_readout(rng, variant):
    model = build(variant, rng)
    full, cache = read_out(model, masked=None)
    logits, _ = read_out(model)
    assert np.allclose(logits, full[MASKED], rtol=1e-12)

    loss, grads = step(model)
    full_loss, loss_cache = cross_entropy(full, TARGETS, weights=MASKED)
    _, full_grads = model.backward(cross_entropy_backward(1, loss_cache), cache)
    assert np.isclose(loss, full_loss, rtol=1e-12)
    assert_close(grads, full_grads)


# --- structure, at random shapes --------------------------------------------------------


@st.composite
def batches(draw, tied=None):
    """A model of random shape and options, and a padded batch for it."""
    rng, variant = draw(generators), draw(variants)
    variant["tied"] = variant["tied"] if tied is None else tied
    heads, width, longest = (draw(sizes) for _ in range(3))
    batch = draw(st.integers(1, 3))
    vocabulary = draw(sizes) + 1
    stack = StackSpec(vocabulary, longest + 1, 1 + draw(sizes) % 2)
    attention = AttentionSpec(heads, bias=draw(st.booleans()))
    spec, others = split_variant(heads * width, attention, draw(sizes), variant)
    model = randomise(Bert(spec, stack, rng, **others), rng)
    lengths = rng.integers(1, longest + 1, batch)
    real = np.arange(longest) < lengths[:, np.newaxis]
    masked = real & (rng.random(real.shape) < 0.5)
    masked[:, 0] = True
    return {
        "model": model,
        "lengths": lengths,
        "ids": rng.integers(vocabulary, size=real.shape) * real,
        "targets": rng.integers(vocabulary, size=real.shape),
        "masked": masked,
        "segment_ids": rng.integers(3, size=real.shape) if variant["segments"] else None,
    }


def run(batch, **changed):
    part = {name: value for name, value in batch.items() if name != "lengths"}
    part["keep"] = padding(batch["lengths"], batch["ids"].shape[1])
    part |= changed
    return part.pop("model").loss_and_gradients(**part)


@given(batches())
def test_a_padded_batch_is_its_sequences_one_by_one(batch):
    """No padding reaches a loss or a gradient; sequences count as their masked tokens do."""
    per_token = {
        name: batch[name]
        for name in ("ids", "targets", "masked", "segment_ids")
        if batch[name] is not None
    }
    parts = []
    for b, length in enumerate(batch["lengths"]):
        one = {name: array[b : b + 1, :length] for name, array in per_token.items()}
        loss, grads = batch["model"].loss_and_gradients(**one)
        parts.append((one["masked"].sum(), loss, grads))
    _, loss, grads = combine(parts)
    padded_loss, padded_grads = run(batch)
    assert np.isclose(padded_loss, loss)
    assert_close(padded_grads, grads)


@given(batches(tied=False))
def test_the_gradients_of_all_tables_have_the_same_sum(batch):
    model = batch["model"]
    _, grads = run(batch)
    tables = ["tokens", "positions"] + ["segments"] * bool(model.segments)
    totals = [grads[f"{table}.table"].sum(axis=0) for table in tables]
    for total in totals:
        assert np.allclose(total, totals[0], rtol=1e-7, atol=1e-9)


@given(batches(tied=True))
def test_a_tied_table_receives_both_terms(batch):
    model = batch["model"]
    table, bias = model.tokens.table, model.readout.bias
    untied = copy.copy(model)
    untied.readout = OwnReadout(table.shape[1], len(table), np.random.default_rng(0))
    untied.readout.weight, untied.readout.bias = table.T, bias
    loss, grads = run(batch, model=untied)
    tied_loss, tied_grads = run(batch)
    assert np.isclose(tied_loss, loss)
    look_up, readout = grads["tokens.table"], grads.pop("readout.weight").T
    assert_close(tied_grads, grads | {"tokens.table": look_up + readout})


def test_a_word_that_is_not_read_has_no_gradient_unless_the_table_is_tied(rng):
    unread = np.setdiff1d(np.arange(V), IDS)
    _, grads = step(build({}, rng))
    assert (grads["tokens.table"][unread] == 0).all()
    assert (grads["positions.table"][IDS.shape[1] :] == 0).all()
    _, grads = step(build({"tied": True}, rng))
    assert (grads["tokens.table"][unread] != 0).all()


def test_the_segments_of_padding_have_no_gradient(rng):
    model = build({"segments": 3}, rng)
    given = inputs(model) | {"segment_ids": np.where(KEEP[:, 0, 0], SEGMENTS, 2)}
    _, grads = model.loss_and_gradients(IDS, TARGETS, MASKED, **given)
    assert (grads["segments.table"][2] == 0).all()
    assert (grads["segments.table"][:2] != 0).all()


# --- the parts --------------------------------------------------------------------------


def test_the_parts_run_in_order(rng):
    model = build({"segments": 2, "embedding_norm": True, "dropout": 0.3}, rng)
    given = inputs(model)
    x = model.tokens.table[IDS] + model.segments.table[SEGMENTS]
    x = x + model.positions.table[: IDS.shape[1]]
    x, _ = model.embedding_norm.forward(x)
    x, _ = dropout(x, 0.3, given["rng"])
    h, _ = model.encoder.forward(x, KEEP, given["rng"])
    logits, _ = model.readout.forward(h[MASKED], model.tokens.table)
    assert np.allclose(read_out(model)[0], logits, rtol=1e-12)


def test_nothing_is_dropped_without_a_generator(rng):
    model = build({"dropout": 0.5}, rng)
    evaluated, _ = model.forward(IDS, MASKED, KEEP)
    model.dropout = 0
    assert not np.allclose(evaluated, read_out(model)[0])
    assert np.array_equal(evaluated, model.forward(IDS, MASKED, KEEP)[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64], ids=lambda d: d.__name__)
@every_variant
def test_the_dtype_is_kept(rng, variant, dtype):
    model = build(variant, rng, dtype)
    logits, cache = read_out(model)
    _, grads = model.backward(normal(rng, logits.shape, dtype), cache)
    loss, loss_grads = step(model)
    assert_dtype_is_kept(dtype, cache, logits, loss, *grads.values(), *loss_grads.values())


@every_variant
def test_every_parameter_has_a_gradient_of_its_shape_and_moves(rng, variant):
    model = build(variant, rng)
    assert_every_parameter_moves(model.parameters(), step(model)[1])


@every_variant
def test_nothing_that_is_given_is_modified(rng, variant):
    model = build(variant, rng)
    dlogits = normal(rng, read_out(model)[0].shape)
    given = IDS, TARGETS, MASKED, KEEP, SEGMENTS
    assert_nothing_is_modified(model, read_out, step, given, dlogits)


# --- errors -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"ids": IDS + 3}, "ids: expected ids from 0 to 7, got 8"),
        ({"ids": IDS[0]}, r"ids: expected shape \(B, T\), got \(5,"),
        (
            {"ids": np.tile(IDS, 2), "masked": np.tile(MASKED, 2), "keep": None},
            "x: expected at most 6 positions, got 10",
        ),
        ({"masked": MASKED[:1]}, r"masked: expected shape \(2, 5\), got \(1, 5\)"),
        ({"masked": MASKED.astype(int)}, "masked: expected booleans, got int64"),
        ({"masked": MASKED & False}, "masked: expected at least one masked token"),
        ({"keep": KEEP[..., :3]}, "keep: expected"),
        ({"segment_ids": SEGMENTS}, "segment_ids: expected None, the model has no"),
    ],
)
def test_bad_input_is_named(rng, changed, message):
    given = {"ids": IDS, "masked": MASKED, "keep": KEEP} | changed
    with pytest.raises(ValueError, match=message):
        build({}, rng).forward(**given)


@pytest.mark.parametrize(
    "segment_ids, message",
    [
        (None, "segment_ids: expected a NumPy array, got NoneType"),
        (SEGMENTS[0], r"segment_ids: expected shape \(2, 5\), got \(5,"),
        (SEGMENTS + 1, "segment_ids: expected ids from 0 to 1, got 2"),
    ],
)
def test_bad_segments_are_named(rng, segment_ids, message):
    with pytest.raises(ValueError, match=message):
        build({"segments": 2}, rng).forward(IDS, segment_ids=segment_ids)


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"targets": TARGETS[:1]}, r"targets: expected shape \(2, 5\), got \(1, 5\)"),
        ({"targets": TARGETS + 2}, "targets: expected ids from 0 to 7, got"),
        ({"masked": None}, "targets: expected shape"),
    ],
)
def test_a_bad_loss_is_named(rng, changed, message):
    given = {"ids": IDS, "targets": TARGETS, "masked": MASKED} | changed
    with pytest.raises(ValueError, match=message):
        build({}, rng).loss_and_gradients(**given)


@pytest.mark.parametrize("masked", [None, MASKED])
def test_a_cotangent_of_another_shape_is_named(rng, masked):
    model = build({}, rng)
    logits, cache = read_out(model, masked)
    with pytest.raises(ValueError, match=r"dy: expected shape \(.*\), got"):
        model.backward(logits[:1, ..., :3], cache)


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"vocabulary": 0}, "vocabulary: expected a whole number of at least 1, got 0"),
        ({"length": 0}, "length: expected a whole number of at least 1, got 0"),
        ({"segments": -1}, "vocabulary: expected a whole number of at least 1, got -1"),
    ],
)
def test_bad_settings_are_named(rng, changed, message):
    settings = {"vocabulary": V, "length": 5} | changed
    with pytest.raises(ValueError, match=message):
        stack = StackSpec(settings.pop("vocabulary"), settings.pop("length"), 1)
        spec, others = split_variant(6, 2, 7, settings)
        Bert(spec, stack, rng, **others)
