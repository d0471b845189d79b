from copy import deepcopy

import numpy as np
import pytest
from helpers.cases import LAYERS
from helpers.witnesses import generators, normal, randomise
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.layers import (
    EncoderLayer,
    LayerSpec,
    Linear,
    LoraLinear,
    add_lora,
    merge_lora,
)
from transformer_core.layers.frozen import Frozen, FrozenLinear
from transformer_core.layers.lora import lora_layers
from transformer_core.models import Bert, Gpt, StackSpec
from transformer_core.optim import SGD, Adam

IDS = np.array([[3, 1, 3], [0, 2, 1]])


@pytest.mark.equation("eq:lora-backward")
def test_gradients_agree_with_the_witnesses(check):
    check.layer(LAYERS["LoraLinear"])


@pytest.mark.equation("eq:frozen-linear")
@given(generators)
def test_a_frozen_layer_returns_the_gradient_of_its_input_alone(rng):
    linear = randomise(Linear(4, 3, rng, np.float64), rng)
    x, dy = normal(rng, (2, 5, 4)), normal(rng, (2, 5, 3))
    y, cache = linear.forward(x)
    dx, _ = linear.backward(dy, cache)
    frozen = FrozenLinear(linear)
    y_frozen, cache = frozen.forward(x)
    dx_frozen, grads = frozen.backward(dy, cache)
    assert np.array_equal(y_frozen, y) and np.allclose(dx_frozen, dx, rtol=1e-12)
    assert grads == frozen.parameters() == {}
    assert not any(np.shares_memory(x, part) for part in cache if isinstance(part, np.ndarray))


def test_at_first_it_does_what_the_frozen_layer_does(rng):
    linear = Linear(4, 3, rng, np.float64)
    layer, x = LoraLinear(linear, 2, 5.0, rng), normal(rng, (2, 5, 4))
    assert np.array_equal(layer.forward(x)[0], linear.forward(x)[0])
    assert layer.parameters().keys() == {"a", "b"}
    assert np.abs(layer.a).max() <= 0.5 and layer.a.any() and layer.scale == 2.5


# The subspace that it moves in


@pytest.mark.equation("eq:lora-rank")
@given(generators, st.integers(1, 4))
def test_no_change_has_a_larger_rank_than_r(rng, rank):
    layer = LoraLinear(randomise(Linear(6, 5, rng, np.float64), rng), rank, 3.0, rng)
    before, optimizer = layer.weight, Adam(layer.parameters(), 0.1)
    for _ in range(5):
        _, cache = layer.forward(normal(rng, (8, 6)))
        optimizer.step(layer.backward(normal(rng, (8, 5)), cache)[1])
    values = np.linalg.svd(layer.weight - before, compute_uv=False)
    assert (values[:rank] > 1e-6).all() and (values[rank:] < 1e-12 * values[0]).all()


@pytest.mark.equation("eq:lora-step")
@given(generators)
def test_with_a_fixed_the_step_is_the_gradient_projected_on_the_columns_of_a(rng):
    layer = randomise(LoraLinear(randomise(Linear(6, 5, rng, np.float64), rng), 2, 3.0, rng), rng)
    x, dy = normal(rng, (8, 6)), normal(rng, (8, 5))
    _, cache = layer.forward(x)
    _, grads = layer.backward(dy, cache)
    before = layer.weight
    SGD({"b": layer.b}, 0.1, momentum=0.0).step({"b": grads["b"]})
    moved = -0.1 * layer.scale**2 * layer.a @ layer.a.T @ (x.T @ dy)
    assert np.allclose(layer.weight - before, moved, rtol=1e-9, atol=1e-12)
    outside = np.linalg.svd(layer.a)[0][:, 2:]
    assert np.allclose(outside.T @ (layer.weight - before), 0, atol=1e-12)


# Merging


@pytest.mark.equation("eq:lora-merged")
@given(generators)
def test_merged_it_is_the_same_function(rng):
    layer, x = LAYERS["LoraLinear"].draw(rng, np.float64)
    merged = layer.merged()
    assert type(merged) is Linear
    assert np.allclose(merged.forward(x)[0], layer.forward(x)[0], rtol=1e-10, atol=1e-12)
    assert not np.array_equal(layer.linear.weight, merged.weight)


def block(rng):
    return randomise(EncoderLayer(LayerSpec(6, 2, 7, "pre", dtype=np.float64), rng), rng)


def test_a_model_is_adapted_by_names_merged_and_as_before(rng):
    model, x = block(rng), normal(rng, (2, 5, 6))
    names, before = model.parameters().keys(), deepcopy(model)
    add_lora(model, ("query_key_value", "branch.output"), 2, 3.0, rng)
    assert lora_layers(model).keys() == {
        "attention.branch.query_key_value",
        "attention.branch.output",
        "feed_forward.branch.output",
    }
    assert {name.rpartition(".")[2] for name in model.parameters()} == {"a", "b"}
    assert np.array_equal(model.forward(x)[0], before.forward(x)[0])
    randomise(model, rng)
    y, _ = model.forward(x)
    merge_lora(model)
    assert model.parameters().keys() == names
    assert np.allclose(model.forward(x)[0], y, rtol=1e-9)
    with pytest.raises(ValueError, match="expected adapted layers to merge, got none"):
        merge_lora(model)


@pytest.mark.parametrize("kind", [Bert, Gpt])
def test_a_tied_model_trains_its_adapters_and_nothing_else(rng, kind):
    spec = LayerSpec(6, 2, 7, "pre", dtype=np.float64)
    model = kind(spec, StackSpec(9, 5, 2), rng, tied=True)
    fixed = {name: array.copy() for name, array in model.parameters().items()}
    add_lora(model, ["query_key_value"], 2, 3.0, rng)
    optimizer = Adam(model.parameters, 0.1)
    last = IDS > 0 if kind is Bert else IDS
    arguments = (IDS, IDS, last) if kind is Bert else (IDS, last)
    for _ in range(2):
        _, grads = model.loss_and_gradients(*arguments)
        optimizer.step(grads)
    assert all(array.any() for array in grads.values())
    adapted = set(lora_layers(model))
    merge_lora(model)
    for name, array in model.parameters().items():
        changed = name.removesuffix(".weight") in adapted
        assert np.array_equal(array, fixed[name]) != changed, name


@pytest.mark.parametrize("targets", [["query"], "output", [], ["query_key_value", "no"], 3])
def test_targets_that_name_no_linear_layer_change_nothing(rng, targets):
    model = block(rng)
    names = model.parameters().keys()
    with pytest.raises(ValueError, match="targets: expected"):
        add_lora(model, targets, 2, 3.0, rng)
    assert model.parameters().keys() == names


def test_frozen_parts_can_still_be_read(rng):
    layer = Frozen(Linear(4, 3, rng))
    assert layer.weight.shape == (4, 3)
    assert layer.parameters() == layer.sublayers() == {}
