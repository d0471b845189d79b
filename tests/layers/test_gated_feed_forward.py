import numpy as np
import pytest
import sympy
from helpers.cases import LAYERS
from helpers.exact import assert_exact, symbols
from helpers.witnesses import generators, randomise, sizes
from hypothesis import given

from book.sentence import EMBEDDING
from transformer_core import ops
from transformer_core.layers import FeedForward, GatedFeedForward, LayerSpec


@pytest.mark.equation("eq:gated-feed-forward-backward")
@pytest.mark.parametrize("case", [name for name in LAYERS if name.startswith("GatedFeedForward")])
def test_gradients_agree_with_the_witnesses(check, case):
    check.layer(LAYERS[case])


@pytest.mark.thorough
@pytest.mark.equation("eq:gated-feed-forward-backward")
def test_gradients_are_exact_for_every_activation(rng):
    f, u = sympy.Function("f"), sympy.Symbol("u")
    layer = GatedFeedForward(2, 2, rng)
    layer.activate = lambda h: (np.vectorize(f, otypes=[object])(h), h)
    layer.activate_backward = lambda da, h: (
        da * np.vectorize(lambda a: f(u).diff(u).subs(u, a), otypes=[object])(h)
    )
    x, dy = symbols("x", 2, 2), symbols("d", 2, 2)
    layer.gate.weight, layer.value.weight = symbols("g", 2, 2), symbols("v", 2, 2)
    layer.output.weight = symbols("w", 2, 2)
    y, cache = layer.forward(x)
    dx, grads = layer.backward(dy, cache)
    arrays = [x, *layer.parameters().values()]
    assert_exact((dy * y).sum(), arrays, [dx, *grads.values()])


@pytest.mark.equation("eq:gated-feed-forward")
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
def test_the_gate_multiplies_the_value(rng, activation):
    layer = randomise(GatedFeedForward(4, 5, rng, np.float64, activation), rng)
    p, x = layer.parameters(), rng.normal(size=(2, 3, 4))
    gate, _ = getattr(ops, activation)(x @ p["gate.weight"])
    expected = (gate * (x @ p["value.weight"])) @ p["output.weight"]
    assert np.allclose(layer.forward(x)[0], expected, atol=1e-12)


@pytest.mark.equation("eq:gated-feed-forward-units")
@given(generators, sizes, sizes, sizes)
def test_every_unit_knows_the_same_of_its_value_and_of_its_output(rng, rows, width, hidden_width):
    layer = randomise(GatedFeedForward(width, hidden_width, rng, np.float64), rng)
    x, dy = rng.normal(size=(2, rows, width))
    y, cache = layer.forward(x)
    _, grads = layer.backward(dy, cache)
    p = layer.parameters()
    by_value = (grads["value.weight"] * p["value.weight"]).sum(axis=0)
    by_output = (grads["output.weight"] * p["output.weight"]).sum(axis=1)
    assert np.allclose(by_value, by_output, atol=1e-10)
    assert np.isclose(by_value.sum(), (dy * y).sum(), atol=1e-9)


def test_the_sentence_by_hand(rng):
    layer = GatedFeedForward(4, 2, rng, np.float64, "relu")
    layer.gate.weight = np.array([[1.0, -1], [1, 0], [0, 1], [1, 0]])
    layer.value.weight = np.array([[0.0, 0], [1, 1], [0, 1], [0, 0]])
    layer.output.weight = np.array([[1.0, 0, -1, 2], [0, 1, 2, -1]])
    y, cache = layer.forward(EMBEDDING[2])
    dx, _ = layer.backward(np.array([1.0, 0, 1, -1]), cache)
    assert np.array_equal(y, [0, -8, -16, 8]) and np.array_equal(dx, [12, 6, -6, 0])


def test_parameter_names(rng):
    names = ["gate.weight", "value.weight", "output.weight"]
    assert list(GatedFeedForward(2, 3, rng).parameters()) == names


def test_two_thirds_of_the_units_have_the_parameters_of_the_plain_layer(rng):
    plain, gated = FeedForward(128, 512, rng), GatedFeedForward(128, 343, rng)
    sizes = [sum(array.size for array in layer.parameters().values()) for layer in (plain, gated)]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize(
    "name, activation", [("swiglu", "silu"), ("geglu", "gelu"), ("geglu_tanh", "gelu_tanh")]
)
def test_a_spec_builds_it_by_name(rng, name, activation):
    layer = LayerSpec(4, 2, 5, "pre", feed_forward=name).make_feed_forward(rng)
    assert isinstance(layer, GatedFeedForward)
    assert layer.activate is getattr(ops, activation)


def test_another_activation_is_named(rng):
    with pytest.raises(ValueError, match="activation: expected one of .*, got 'swiglu'"):
        GatedFeedForward(4, 5, rng, activation="swiglu")
