import numpy as np
import pytest
from helpers.cases import OPS
from helpers.exact import assert_exact, symbols
from helpers.witnesses import generators, sizes
from hypothesis import given

from transformer_core.ops import linear, linear_backward
from transformer_core.ops.linear import LinearCache


@pytest.mark.equation("eq:linear-backward")
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (2, 2, 3, 4)])
def test_gradients_agree_with_the_witnesses(check, shape):
    op = OPS["linear"]
    check.op(op._replace(shapes=op.shapes | {"x": shape}))


@pytest.mark.equation("eq:linear-backward")
def test_gradients_are_exact():
    arrays = symbols("x", 2, 2, 3), symbols("w", 3, 2), symbols("b", 2)
    dy = symbols("d", 2, 2, 2)
    y, cache = linear(*arrays)
    assert_exact((y * dy).sum(), arrays, linear_backward(dy, cache))


@pytest.mark.equation("eq:linear")
@given(generators, sizes, sizes, sizes, sizes)
def test_each_position_is_mapped_by_itself(rng, batch, length, width_in, width_out):
    x = rng.normal(size=(batch, length, width_in))
    weight = rng.normal(size=(width_in, width_out))
    bias = rng.normal(size=width_out)
    y, _ = linear(x, weight, bias)
    alone = [[row @ weight + bias for row in sequence] for sequence in x]
    assert np.allclose(y, alone, rtol=1e-12)


@given(generators, sizes, sizes, sizes, sizes)
def test_parameter_gradients_sum_over_every_position(rng, batch, length, width_in, width_out):
    x = rng.normal(size=(batch, length, width_in))
    weight, bias = rng.normal(size=(width_in, width_out)), rng.normal(size=width_out)
    dy = rng.normal(size=(batch, length, width_out))
    _, dweight, dbias = linear_backward(dy, linear(x, weight, bias)[1])
    pairs = zip(x.reshape(-1, width_in), dy.reshape(-1, width_out), strict=True)
    assert np.allclose(dweight, sum(np.outer(*pair) for pair in pairs), rtol=1e-12)
    assert np.allclose(dbias, sum(dy.reshape(-1, width_out)), rtol=1e-12)


@pytest.mark.parametrize(
    "x, weight, bias, message",
    [
        (np.ones((2, 3)), np.ones(3), np.ones(4), r"weight: .* \(D_in, D_out\), got \("),
        (np.ones((2, 3)), np.ones((2, 4)), np.ones(4), r"x: .* \(\.\.\., 2\), got \(2"),
        (np.ones((2, 3)), np.ones((3, 4)), np.ones(3), r"bias: .* \(4\), got \(3,\)"),
    ],
)
def test_bad_input_is_named(x, weight, bias, message):
    with pytest.raises(ValueError, match=message):
        linear(x, weight, bias)


def test_a_cache_made_by_hand_is_that_of_a_layer_with_bias(rng):
    cache = LinearCache(rng.normal(size=(2, 3)), rng.normal(size=(3, 4)))
    dy = rng.normal(size=(2, 4))
    assert np.array_equal(linear_backward(dy, cache)[2], dy.sum(axis=0))
