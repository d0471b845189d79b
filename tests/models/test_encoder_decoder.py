import copy
from collections import Counter

import numpy as np
import pytest
from helpers.cases import split_variant
from helpers.witnesses import (
    arrays_in,
    assert_close,
    assert_dtype_is_kept,
    assert_every_parameter_moves,
    assert_memory_of_their_own,
    assert_nothing_is_modified,
    causal,
    generators,
    normal,
    padding,
    randomise,
    sizes,
)
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.layers import LayerSpec, OwnReadout
from transformer_core.models import EncoderDecoder, StackSpec, greedy_search
from transformer_core.ops import cross_entropy, sinusoidal_positions, softmax
from transformer_core.optim import Adam
from transformer_core.training import combine

PAD, START, END = 0, 1, 2
V_SOURCE, V = 6, 7
SOURCE = np.array([[3, 5, 3, 4], [4, 2, PAD, PAD]])  # repeated ids, and padding
SOURCE_LENGTHS = np.array([4, 2])
TARGET = np.array([[START, 3, 6, 3, 5, END], [START, 4, END, PAD, PAD, PAD]])
TARGET_LENGTHS = np.array([6, 3])
BATCH = SOURCE, SOURCE_LENGTHS, TARGET, TARGET_LENGTHS
KEEP = padding(SOURCE_LENGTHS, 4)

VARIANTS = {
    "tied": {},
    "untied": {"tied": False},
    "shared": {"tied": False, "shared": True},
    "tied and shared": {"shared": True},
    "Post-LN": {"placement": "post"},
    "GELU": {"feed_forward": "gelu"},
    "dropout": {"dropout": 0.3},
    "everything": {
        "placement": "post",
        "shared": True,
        "feed_forward": "gelu_tanh",
        "dropout": 0.3,
    },
}
every_variant = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
# In the quick loop the variant with everything has to do for gradients.
by_witnesses = [
    pytest.param(v, marks=[pytest.mark.slow] * (name != "everything"), id=name)
    for name, v in VARIANTS.items()
]
variants = st.fixed_dictionaries(
    {
        "placement": st.sampled_from(["post", "pre"]),
        "feed_forward": st.sampled_from(["relu", "gelu", "gelu_tanh"]),
        "tied": st.booleans(),
        "shared": st.booleans(),
    }
)


def build(variant, rng, dtype=np.float64):
    vocabulary = V if variant.get("shared") else V_SOURCE
    spec, others = split_variant(6, 2, 5, variant, dtype=dtype)
    source, target = StackSpec(vocabulary, 5, 1), StackSpec(V, 6, 2)
    model = EncoderDecoder(spec, source, target, rng, **others)
    for array in randomise(model, rng).parameters().values():
        array *= 0.5  # smooth enough for central differences
    return model


def forward(model):
    """Dropout falls the same way at every call."""
    return model.forward(SOURCE, TARGET[:, :-1], KEEP, np.random.default_rng(3))


def step(model, smoothing=0.0):
    rng = np.random.default_rng(3)
    return model.loss_and_gradients(*BATCH, rng, smoothing)


# --- witnesses --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.equation("eq:encoder-decoder-backward")
@pytest.mark.parametrize("variant", by_witnesses)
def test_gradients_agree_with_the_witnesses(check, rng, variant):
    model = build(variant, rng, check.witness.dtype)
    check.model(
        lambda: forward(model),
        lambda dlogits, cache: model.backward(dlogits, cache)[-1],
        model.parameters(),
    )


@pytest.mark.equation("eq:encoder-decoder-backward")
@pytest.mark.parametrize(
    "variant, smoothing",
    [pytest.param("tied", 0.0, marks=pytest.mark.thorough), ("everything", 0.1)],
)
def test_loss_gradients_agree_with_the_witnesses(check, rng, variant, smoothing):
    model = build(VARIANTS[variant], rng, check.witness.dtype)
    check.model(
        lambda: step(model, smoothing),
        lambda dloss, grads: {name: dloss * grad for name, grad in grads.items()},
        model.parameters(),
    )


# --- the function -----------------------------------------------------------------------


@pytest.mark.equation("eq:encoder-decoder")
@every_variant
def test_the_parts_run_in_order(rng, variant):
    model = build(variant, rng)
    source_table = model.source_embedding.table
    positions = sinusoidal_positions(6, 6)
    x = 6**0.5 * source_table[SOURCE] + positions[:4]
    encoded, _ = model.encoder.forward(x, KEEP)
    z = 6**0.5 * model.target_embedding.table[TARGET[:, :-1]] + positions[:5]
    z, _ = model.decoder.forward(z, encoded, causal(5), KEEP)
    tied = variant.get("tied", True)
    weight = model.target_embedding.table.T if tied else model.readout.weight
    logits, _ = model.forward(SOURCE, TARGET[:, :-1], KEEP)
    assert np.allclose(logits, z @ weight + model.readout.bias, rtol=1e-12)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_only_pre_ln_stacks_end_in_a_norm_of_their_own(rng, placement):
    names = build({"placement": placement}, rng).parameters()
    last = {name for name in names if name.rpartition(".")[0].endswith("final_norm")}
    arrays = {"gamma", "beta"} if placement == "pre" else set()
    stacks = ("encoder.final_norm", "decoder.final_norm")
    assert last == {f"{stack}.{array}" for stack in stacks for array in arrays}


@pytest.mark.equation("eq:teacher-forcing")
def test_the_loss_is_the_surprise_at_each_token_given_those_before_it(rng):
    model = build({}, rng)
    surprises = []
    for b, length in enumerate(TARGET_LENGTHS):
        source = SOURCE[b : b + 1, : SOURCE_LENGTHS[b]]
        for t in range(1, length):
            logits, _ = model.forward(source, TARGET[b : b + 1, :t])
            surprises.append(-np.log(softmax(logits)[0][0, -1, TARGET[b, t]]))
    loss, _ = model.loss_and_gradients(*BATCH)
    assert np.isclose(loss, np.mean(surprises), rtol=1e-12)


def test_smoothing_is_that_of_the_cross_entropy(rng):
    model = build({}, rng)
    logits, _ = model.forward(SOURCE, TARGET[:, :-1], KEEP)
    counted = np.arange(1, 6) < TARGET_LENGTHS[:, np.newaxis]
    expected, _ = cross_entropy(logits, TARGET[:, 1:], counted, smoothing=0.2)
    loss, _ = model.loss_and_gradients(*BATCH, smoothing=0.2)
    assert np.isclose(loss, expected, rtol=1e-14)
    assert not np.isclose(loss, model.loss_and_gradients(*BATCH)[0], rtol=1e-3)


# --- structure, at random shapes --------------------------------------------------------


@st.composite
def batches(draw, **fixed):
    """A model of random shape and options, and a padded batch for it."""
    rng, variant = draw(generators), draw(variants) | fixed
    heads, half, longest_source, longest_target = (draw(sizes) for _ in range(4))
    batch = draw(st.integers(1, 3))
    vocabulary = draw(sizes) + 1
    spec, others = split_variant(2 * half * heads, heads, draw(sizes), variant)
    read = vocabulary if variant["shared"] else draw(sizes)
    model = EncoderDecoder(
        spec,
        StackSpec(read, longest_source, draw(st.integers(1, 2))),
        StackSpec(vocabulary, longest_target, draw(st.integers(1, 2))),
        rng,
        **others,
    )
    randomise(model, rng)
    return model, (
        rng.integers(len(model.source_embedding.table), size=(batch, longest_source)),
        rng.integers(1, longest_source + 1, batch),
        rng.integers(vocabulary, size=(batch, longest_target + 1)),
        rng.integers(2, longest_target + 2, batch),
    )


@given(batches(), generators)
def test_a_later_token_of_the_target_changes_no_earlier_logits(drawn, rng):
    model, (source, _, target, _) = drawn
    shifted = target[:, :-1]
    logits, _ = model.forward(source, shifted)
    now = rng.integers(shifted.shape[1])
    shifted[:, now + 1 :] = rng.integers(V, size=shifted[:, now + 1 :].shape) % len(
        model.target_embedding.table
    )
    changed, _ = model.forward(source, shifted)
    before = np.s_[:, : now + 1]
    assert np.allclose(changed[before], logits[before], rtol=1e-7, atol=1e-7)


@given(batches())
def test_a_padded_batch_is_its_sequences_one_by_one(drawn):
    """No padding reaches a loss or a gradient; sequences count as their tokens do."""
    model, (source, source_lengths, target, target_lengths) = drawn
    parts = []
    for b, (s, t) in enumerate(zip(source_lengths, target_lengths, strict=True)):
        loss, grads = model.loss_and_gradients(
            source[b : b + 1, :s], np.array([s]), target[b : b + 1, :t], np.array([t])
        )
        parts.append((t - 1, loss, grads))
    _, loss, grads = combine(parts)
    padded_loss, padded_grads = model.loss_and_gradients(*drawn[1])
    assert np.isclose(padded_loss, loss)
    assert_close(padded_grads, grads)


@pytest.mark.thorough
@pytest.mark.equation("eq:tied-embedding-backward")
@given(batches(tied=True, shared=True))
def test_a_table_receives_one_term_for_each_of_its_uses(drawn):
    model, batch = drawn
    table = model.target_embedding.table
    separate = copy.copy(model)
    separate.source_embedding = copy.copy(model.target_embedding)
    separate.readout = OwnReadout(table.shape[1], len(table), np.random.default_rng(0))
    separate.readout.weight, separate.readout.bias = table.T, model.readout.bias
    loss, grads = separate.loss_and_gradients(*batch)
    shared_loss, shared_grads = model.loss_and_gradients(*batch)
    assert np.isclose(shared_loss, loss)
    of_source, of_readout = (grads.pop("source_embedding.table"), grads.pop("readout.weight").T)
    grads["target_embedding.table"] += of_source + of_readout
    assert_close(shared_grads, grads)


@pytest.mark.equation("eq:encoder-decoder-backward")
def test_every_decoder_layer_sends_a_gradient_to_the_encoder(rng):
    model = build({}, rng)
    logits, cache = forward(model)
    dlogits = normal(rng, logits.shape)
    _, grads = model.backward(dlogits, cache)

    dz, _, _ = model.readout.backward(dlogits, cache.decoded.readout)
    first, last = model.decoder.layers
    first_cache, last_cache = cache.decoded.decoder.layers
    dz, _ = model.decoder.final_norm.backward(dz, cache.decoded.decoder.final_norm)
    dz, from_last, _ = last.backward(dz, last_cache)
    _, from_first, _ = first.backward(dz, first_cache)
    assert np.abs(from_first).max() > 1e-3 and np.abs(from_last).max() > 1e-3
    of_encoder = [
        model.encoder.backward(dencoded, cache.encoded.encoder)[1]
        for dencoded in (from_first, from_last)
    ]
    for name in of_encoder[0]:
        expected = of_encoder[0][name] + of_encoder[1][name]
        got = grads[f"encoder.{name}"]
        assert np.allclose(got, expected, rtol=1e-9, atol=1e-12), name


# --- dropout, dtype, parameters ---------------------------------------------------------


def test_every_place_draws_a_mask_of_its_own(rng):
    model = build({"dropout": 0.5, "feed_forward": "gelu_tanh"}, rng)
    _, cache = forward(model)
    masks = [array for array in arrays_in(cache) if array.dtype == bool]
    assert Counter(mask.shape for mask in masks) == {
        (2, 4, 6): 1 + 2,  # the source's embeddings, two branches of an encoder layer
        (2, 5, 6): 1 + 2 * 3,  # the target's, three branches of two decoder layers
        (2, 2, 4, 4): 1,
        (2, 2, 5, 5): 2,
        (2, 2, 5, 4): 2,
    }
    assert len({mask.tobytes() for mask in masks}) == len(masks)


def test_dropout_falls_on_the_embeddings_with_their_positions(rng):
    model = build({"dropout": 0.5}, rng)
    kept, _ = model.embed(SOURCE, model.source_embedding)
    x, cache = model.embed(SOURCE, model.source_embedding, rng)
    assert 0 < (x == 0).sum() < x.size
    assert np.allclose(x, np.where(cache.dropout.mask, 2 * kept, 0))


def test_evaluation_drops_nothing(rng):
    model = build({"dropout": 0.5}, rng)
    evaluated, _ = model.forward(SOURCE, TARGET[:, :-1], KEEP)
    model.dropout = 0.0
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        for residual in layer.sublayers().values():
            residual.dropout = residual.branch.dropout = 0.0
    without, _ = forward(model)
    assert np.array_equal(evaluated, without)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64], ids=lambda d: d.__name__)
@every_variant
def test_the_dtype_is_kept(rng, variant, dtype):
    model = build(variant, rng, dtype)
    logits, cache = forward(model)
    _, grads = model.backward(normal(rng, logits.shape, dtype), cache)
    loss, loss_grads = step(model, smoothing=0.1)
    assert_dtype_is_kept(dtype, cache, logits, loss, *grads.values(), *loss_grads.values())


def test_settings_that_are_numpy_numbers_keep_float32(rng):
    six, two = np.int64(6), np.int64(2)
    spec = LayerSpec(six, two, two, "pre", dropout=np.float64(0.3))
    source, target = (StackSpec(np.int64(V_SOURCE), six, two), StackSpec(np.int64(V), six, two))
    model = EncoderDecoder(spec, source, target, rng)
    logits, cache = forward(model)
    loss, grads = step(model, smoothing=np.float64(0.1))
    arrays = logits, loss, *grads.values(), *model.parameters().values()
    assert_dtype_is_kept(np.float32, cache, *arrays)


def test_a_shared_table_belongs_to_one_layer(rng):
    parameters = build({"tied": True, "shared": True}, rng).parameters()
    assert len([name for name in parameters if "table" in name]) == 1
    assert_memory_of_their_own(list(parameters.values()))


def test_the_embeddings_start_as_large_as_the_positions(rng):
    source, target = StackSpec(500, 9, 1), StackSpec(400, 9, 1)
    model = EncoderDecoder(LayerSpec(64, 4, 8, "pre"), source, target, rng)
    ids = np.arange(9)[np.newaxis]
    for table in (model.source_embedding, model.target_embedding):
        assert np.isclose(table.table.std(), 1 / 8, rtol=0.03)
        x, _ = model.embed(ids, table)
        assert np.isclose((x - model.positions.table[:9]).std(), 1, rtol=0.1)


@every_variant
def test_every_parameter_has_a_gradient_of_its_shape_and_moves(rng, variant):
    model = build(variant, rng)
    assert_every_parameter_moves(model.parameters(), step(model)[1])


@every_variant
def test_nothing_that_is_given_is_modified(rng, variant):
    model = build(variant, rng)
    dlogits = normal(rng, forward(model)[0].shape)
    assert_nothing_is_modified(model, forward, step, [*BATCH, KEEP], dlogits)


@pytest.mark.slow
def test_it_learns_to_reverse_what_it_reads(rng):
    source, target = StackSpec(8, 4, 1), StackSpec(8, 5, 1)
    model = EncoderDecoder(LayerSpec(16, 2, 32, "pre"), source, target, rng, shared=True)
    optimizer = Adam(model.parameters(), learning_rate=1e-2)

    def sample(batch):
        lengths = rng.integers(1, 5, batch)
        source = rng.integers(3, 8, (batch, 4))
        target = np.full((batch, 6), PAD)
        target[:, 0] = START
        for row, ids, n in zip(target, source, lengths, strict=True):
            row[1 : n + 2] = [*ids[:n][::-1], END]
        return source, lengths, target, lengths + 2

    for _ in range(800):
        _, grads = model.loss_and_gradients(*sample(64), smoothing=0.05)
        optimizer.step(grads)
    source, lengths, target, target_lengths = sample(200)
    tokens, written = greedy_search(model, source, lengths, start=START, end=END)
    assert np.array_equal(written, target_lengths - 1)
    assert (tokens == target[:, 1:]).all(axis=1).mean() > 0.99


# --- errors -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"source": SOURCE + 3}, "ids: expected ids from 0 to 5, got"),
        ({"source": SOURCE[0]}, r"source: expected shape \(B, T\), got \(4,"),
        ({"source": np.ones((2, 6), int)}, "source: expected at most 5 positions, got 6"),
        ({"source": np.ones((3, 4), int)}, r"source: expected shape \(2, S, 6\), got \(3"),
        ({"shifted": TARGET + 3}, "ids: expected ids from 0 to 6, got"),
        ({"shifted": TARGET[0]}, r"shifted: expected shape \(B, T\), got \(6,"),
        ({"shifted": np.ones((2, 7), int)}, "shifted: expected at most 6 positions, got 7"),
        ({"source_keep": KEEP[..., :3]}, "keep: expected a shape that broadcasts"),
        ({"source_keep": KEEP.astype(int)}, "keep: expected booleans"),
    ],
)
def test_bad_input_is_named(rng, changed, message):
    given = {"source": SOURCE, "shifted": TARGET} | changed
    with pytest.raises(ValueError, match=message):
        build({}, rng).forward(**given)


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"source_lengths": np.array([4])}, r"source_lengths: .* \(2\), got \(1,"),
        ({"source_lengths": np.array([4, 5])}, "lengths: .* from 0 to 4, got"),
        ({"target": TARGET[:1]}, r"target: expected shape \(2, T \+ 1\), got \(1, 6\)"),
        ({"target": TARGET[:, :1]}, "lengths: .* from 0 to 1, got"),
        ({"target_lengths": np.array([[6, 3]])}, r"target_lengths: .* \(2\), got \(1, 2"),
        ({"target_lengths": np.array([7, 3])}, "lengths: .* from 0 to 6, got"),
        ({"target_lengths": np.array([1, 0])}, "weights: expected at least one counted"),
        ({"smoothing": 1.0}, r"smoothing: expected a number in \[0, 1\), got 1.0"),
    ],
)
def test_a_bad_loss_is_named(rng, changed, message):
    names = ("source", "source_lengths", "target", "target_lengths")
    given = dict(zip(names, BATCH, strict=True)) | changed
    with pytest.raises(ValueError, match=message):
        build({}, rng).loss_and_gradients(**given)


def test_a_last_token_outside_the_vocabulary_is_named(rng):
    target = TARGET.copy()
    target[0, -1] = V
    with pytest.raises(ValueError, match="targets: expected ids from 0 to 6, got 7"):
        build({}, rng).loss_and_gradients(SOURCE, SOURCE_LENGTHS, target, TARGET_LENGTHS)


def test_a_cotangent_of_another_shape_is_named(rng):
    for variant in ({"tied": True}, {"tied": False}):
        model = build(variant, rng)
        logits, cache = forward(model)
        with pytest.raises(ValueError, match=r"d\w+: expected shape \(.*\), got"):
            model.backward(logits[..., :3], cache)


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"source": (0, 5, 1)}, "vocabulary: expected a whole number of at least 1"),
        ({"target": (0, 5, 1)}, "vocabulary: expected a whole number of at least 1"),
        ({"source": (8, 0, 1)}, "length: expected a whole number of at least 1"),
        ({"target": (7, 2.0, 1)}, "length: expected a whole number .* got 2.0"),
        ({"source": (8, 5, 0)}, "layers: expected a whole number .* got 0"),
        ({"target": (7, 5, 0)}, "layers: expected a whole number .* got 0"),
        ({"width": 7, "attention": 1}, "width: expected an even number, got 7"),
        ({"shared": True}, "shared: expected vocabularies of one size, got 8 and 7"),
    ],
)
def test_bad_settings_are_named(rng, changed, message):
    settings = {"source": (8, 5, 1), "target": (7, 5, 1), "width": 6, "attention": 2} | changed
    sizes = settings.pop("width"), settings.pop("attention"), 5
    with pytest.raises(ValueError, match=message):
        for name in ("source", "target"):
            settings[name] = StackSpec(*settings[name])
        spec, others = split_variant(*sizes, settings)
        EncoderDecoder(spec, **others, rng=rng)
