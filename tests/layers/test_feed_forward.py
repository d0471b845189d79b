import numpy as np
import pytest
import sympy
from helpers.cases import LAYERS
from helpers.exact import assert_exact, symbols
from helpers.witnesses import generators, randomise, sizes
from hypothesis import given

from transformer_core import ops
from transformer_core.layers import FeedForward


@pytest.mark.equation("eq:feed-forward-backward")
@pytest.mark.parametrize("case", [name for name in LAYERS if name.startswith("FeedForward")])
def test_gradients_agree_with_the_witnesses(check, case):
    check.layer(LAYERS[case])


@pytest.mark.slow
@pytest.mark.equation("eq:feed-forward-backward")
def test_gradients_are_exact_for_every_activation(rng):
    f, u = sympy.Function("f"), sympy.Symbol("u")
    layer = FeedForward(2, 2, rng)
    layer.activate = lambda h: (np.vectorize(f, otypes=[object])(h), h)
    layer.activate_backward = lambda da, h: (
        da * np.vectorize(lambda a: f(u).diff(u).subs(u, a), otypes=[object])(h)
    )
    x, dy = symbols("x", 2, 2), symbols("d", 2, 2)
    layer.hidden.weight, layer.hidden.bias = symbols("v", 2, 2), symbols("a", 2)
    layer.output.weight, layer.output.bias = symbols("w", 2, 2), symbols("b", 2)
    y, cache = layer.forward(x)
    dx, grads = layer.backward(dy, cache)
    arrays = [x, *layer.parameters().values()]
    assert_exact((dy * y).sum(), arrays, [dx, *grads.values()])


@pytest.mark.equation("eq:feed-forward")
@given(generators, sizes, sizes, sizes, sizes)
def test_each_position_is_mapped_by_itself(rng, batch, length, width, hidden_width):
    layer = randomise(FeedForward(width, hidden_width, rng, np.float64), rng)
    x = rng.normal(size=(batch, length, width))
    y, _ = layer.forward(x)
    hidden, output = layer.hidden, layer.output
    for at in np.ndindex(batch, length):
        active = np.maximum(x[at] @ hidden.weight + hidden.bias, 0)
        expected = active @ output.weight + output.bias
        assert np.allclose(y[at], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "silu"])
def test_the_activation_stands_between_the_two_linear_layers(rng, activation):
    layer = randomise(FeedForward(4, 5, rng, np.float64, activation), rng)
    x = rng.normal(size=(2, 3, 4))
    hidden, _ = layer.hidden.forward(x)
    active, _ = getattr(ops, activation)(hidden)
    assert np.array_equal(layer.forward(x)[0], layer.output.forward(active)[0])


def test_another_activation_is_named(rng):
    message = "activation: expected one of relu, gelu, gelu_tanh, silu, got 'GELU'"
    with pytest.raises(ValueError, match=message):
        FeedForward(4, 5, rng, activation="GELU")


def test_a_bad_width_is_named(rng):
    with pytest.raises(ValueError, match="expected a whole number .* got 0"):
        FeedForward(4, 0, rng)
