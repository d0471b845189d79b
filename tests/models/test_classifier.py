from copy import deepcopy

import numpy as np
import pytest
from helpers.witnesses import assert_close, assert_every_parameter_moves, randomise

from transformer_core.layers import AttentionSpec, LayerSpec, add_lora
from transformer_core.layers.frozen import Frozen
from transformer_core.models import Bert, Classifier, StackSpec

IDS = np.array([[3, 1, 3, 5, 1], [4, 3, 1, 0, 0]])  # repeated, and padded
KEEP, LABELS = IDS != 0, np.array([2, 0])


def generic(model, rng):
    """Random parameters, of a size at which central differences are exact enough."""
    for array in randomise(model, rng).parameters().values():
        array *= 0.5
    return model


def bert(rng, dtype=np.float64, **variant):
    spec = LayerSpec(6, AttentionSpec(2), 7, "post", dtype=dtype)
    return generic(Bert(spec, StackSpec(8, 6, 2), rng, embedding_norm=True, **variant), rng)


def build(rng, dtype=np.float64, **options):
    return generic(Classifier(bert(rng, dtype), 3, rng, **options), rng)


def adapted(rng, dtype=np.float64):
    model = build(rng, dtype)
    add_lora(model.bert, ["query_key_value", "hidden"], 2, 3.0, rng)
    return generic(model, rng)


def head_alone(rng, dtype=np.float64):
    model = build(rng, dtype)
    model.bert = Frozen(model.bert)
    return model


KINDS = {
    "mean": build,
    "first": lambda rng, dtype: build(rng, dtype, first=True),
    "LoRA": adapted,
    "head alone": head_alone,
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@pytest.mark.equation("eq:classifier-backward")
@every_kind
def test_gradients_agree_with_the_witnesses(check, kind):
    model = kind(check.rng, check.witness.dtype)
    check.model(
        lambda: model.forward(IDS, KEEP),
        lambda dy, cache: model.backward(dy, cache)[1],
        model.parameters(),
    )


@every_kind
def test_every_parameter_moves(rng, kind):
    model = kind(rng, np.float64)
    _, grads = model.loss_and_gradients(IDS, LABELS, KEEP)
    assert_every_parameter_moves(model.parameters(), grads)


def test_what_is_trained_is_what_is_not_frozen(rng):
    assert build(rng).parameters().keys() - bert(rng).parameters().keys()
    assert adapted(rng).parameters().keys() == {
        "head.weight",
        "head.bias",
        *(
            f"bert.encoder.layer_{i}.{part}.branch.{layer}.{name}"
            for i in range(2)
            for part, layer in (("attention", "query_key_value"), ("feed_forward", "hidden"))
            for name in "ab"
        ),
    }
    assert head_alone(rng).parameters().keys() == {"head.weight", "head.bias"}


@pytest.mark.equation("eq:classifier")
@pytest.mark.parametrize("first", [False, True])
def test_padding_changes_nothing(rng, first):
    model = build(rng, first=first)
    logits, _ = model.forward(IDS, KEEP)
    alone, _ = model.forward(IDS[1:, :3])
    assert np.allclose(logits[1:], alone, rtol=1e-10)
    other = np.where(KEEP, IDS, 7)
    again, _ = model.forward(other, KEEP)
    assert np.allclose(again, logits, rtol=1e-10)


def test_a_frozen_head_below_is_the_gradient_of_the_whole(rng):
    whole = build(rng)
    alone = deepcopy(whole)
    alone.bert = Frozen(alone.bert)
    loss, grads = whole.loss_and_gradients(IDS, LABELS, KEEP)
    loss_alone, grads_alone = alone.loss_and_gradients(IDS, LABELS, KEEP)
    assert loss_alone == loss
    assert_close(grads_alone, {name: grads[name] for name in grads_alone})


def test_the_parameters_are_those_of_the_model_that_it_is_given(rng):
    whole = bert(rng, tied=True)
    model = Classifier(whole, 3, rng)
    assert model.parameters()["bert.tokens.table"] is whole.tokens.table
    assert whole.readout is not None and model.bert.readout is None
    _, grads = model.loss_and_gradients(IDS, LABELS)
    assert grads.keys() == model.parameters().keys()
