import numpy as np
import pytest
from helpers.cases import IDS
from helpers.witnesses import assert_memory_of_their_own, normal, randomise

from transformer_core.foundation.names import join
from transformer_core.layers import (
    Embedding,
    EncoderLayer,
    Layer,
    LayerSpec,
    LearnedPositions,
    TiedReadout,
)


class LanguageModel(Layer):
    """Look up, add positions, encode, and read out with the same table."""

    def __init__(self, rng, dtype):
        self.embedding = Embedding(7, 6, rng, dtype=dtype)
        self.positions = LearnedPositions(5, 6, rng, dtype=dtype)
        self.encoder = EncoderLayer(LayerSpec(6, 2, 4, "pre", dtype=dtype), rng)
        self.readout = TiedReadout(7, dtype)

    def forward(self, ids):
        rows, embedding_cache = self.embedding.forward(ids)
        x, positions_cache = self.positions.forward(rows)
        h, encoder_cache = self.encoder.forward(x)
        logits, readout_cache = self.readout.forward(h, self.embedding.table)
        return logits, (embedding_cache, positions_cache, encoder_cache, readout_cache)

    def backward(self, dlogits, cache):
        embedding_cache, positions_cache, encoder_cache, readout_cache = cache
        grads = {}
        dh, dtable, grads["readout"] = self.readout.backward(dlogits, readout_cache)
        dx, grads["encoder"] = self.encoder.backward(dh, encoder_cache)
        drows, grads["positions"] = self.positions.backward(dx, positions_cache)
        dids, grads["embedding"] = self.embedding.backward(drows, embedding_cache)
        grads["embedding"]["table"] += dtable
        return dids, join(grads)


def prove_parameters(check, layer, *inputs):
    check.compare(
        lambda: layer.forward(*inputs),
        lambda dy, cache: layer.backward(dy, cache)[-1],
        layer.parameters(),
    )


@pytest.mark.equation("eq:embedding-backward")
def test_gradient_agrees_with_the_witnesses(check, rng):
    prove_parameters(check, Embedding(7, 3, rng, dtype=check.witness.dtype), IDS)


@pytest.mark.equation("eq:tied-readout-backward")
def test_readout_gradients_agree_with_the_witnesses(check, rng):
    readout = randomise(TiedReadout(7, check.witness.dtype), rng)
    h, table = (normal(rng, shape).astype(check.witness.dtype) for shape in ((2, 4, 3), (7, 3)))

    def backward(dlogits, cache):
        dh, dtable, grads = readout.backward(dlogits, cache)
        return {"h": dh, "table": dtable, **grads}

    arrays = {"h": h, "table": table, **readout.parameters()}
    check.compare(lambda: readout.forward(h, table), backward, arrays)


@pytest.mark.equation("eq:tied-embedding-backward")
def test_both_terms_of_a_tied_table_arrive(check, rng):
    model = randomise(LanguageModel(rng, check.witness.dtype), rng)
    prove_parameters(check, model, IDS)


def test_the_ids_have_no_gradient(rng):
    layer = Embedding(7, 3, rng)
    rows, cache = layer.forward(IDS)
    dids, grads = layer.backward(rows, cache)
    assert dids is None
    assert grads.keys() == layer.parameters().keys()


def test_the_table_belongs_to_one_layer(rng):
    model = LanguageModel(rng, np.float32)
    assert_memory_of_their_own(list(model.parameters().values()))


def test_the_table_starts_with_the_standard_deviation(rng):
    assert np.isclose(Embedding(500, 40, rng).table.std(), 0.02, rtol=0.02)
    assert np.isclose(Embedding(500, 40, rng, std=0.5).table.std(), 0.5, rtol=0.02)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_as_asked(rng, dtype):
    model = LanguageModel(rng, dtype)
    logits, cache = model.forward(IDS)
    _, grads = model.backward(logits, cache)
    assert logits.dtype == dtype
    for name, array in model.parameters().items():
        assert array.dtype == dtype and grads[name].dtype == dtype


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda rng: Embedding(0, 4, rng), "vocabulary: expected a whole number"),
        (lambda rng: Embedding(4, 2.0, rng), "width: expected a whole number"),
        (lambda rng: TiedReadout(0), "vocabulary: expected a whole number"),
    ],
)
def test_bad_sizes_are_named(rng, build, message):
    with pytest.raises(ValueError, match=message):
        build(rng)


def test_an_unknown_id_is_named(rng):
    with pytest.raises(ValueError, match="ids: expected ids from 0 to 6, got 7"):
        Embedding(7, 3, rng).forward(IDS + 2)
