import numpy as np
import pytest
from helpers.cases import IDS
from helpers.witnesses import assert_memory_of_their_own, normal, randomise

from transformer_core.layers import Embedding, LayerSpec, TiedReadout
from transformer_core.models import Bert, StackSpec


def tied_model(rng, dtype):
    """Look up, add positions, encode, and read out with the same table."""
    spec = LayerSpec(6, 2, 4, "pre", dtype=dtype)
    return randomise(Bert(spec, StackSpec(7, 5, 1), rng, tied=True), rng)


def prove_parameters(check, layer, *inputs):
    check.model(
        lambda: layer.forward(*inputs),
        lambda dy, cache: layer.backward(dy, cache)[-1],
        layer.parameters(),
        probes=None,
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
    prove_parameters(check, tied_model(rng, check.witness.dtype), IDS)


def test_the_ids_have_no_gradient(rng):
    layer = Embedding(7, 3, rng)
    rows, cache = layer.forward(IDS)
    dids, grads = layer.backward(rows, cache)
    assert dids is None
    assert grads.keys() == layer.parameters().keys()


def test_the_table_belongs_to_one_layer(rng):
    model = tied_model(rng, np.float32)
    assert_memory_of_their_own(list(model.parameters().values()))


def test_the_table_starts_with_the_standard_deviation(rng):
    assert np.isclose(Embedding(500, 40, rng).table.std(), 0.02, rtol=0.02)
    assert np.isclose(Embedding(500, 40, rng, std=0.5).table.std(), 0.5, rtol=0.02)


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
