import numpy as np
import pytest
from helpers.cases import OPS
from helpers.exact import assert_exact, symbols
from helpers.witnesses import generators, sizes
from hypothesis import given

from transformer_core.ops import gated_product, gated_product_backward


@pytest.mark.equation("eq:gated-product-backward")
def test_gradients_agree_with_the_witnesses(check):
    check.op(OPS["gated_product"])


@pytest.mark.equation("eq:gated-product-backward")
def test_gradients_are_exact(symbolic):
    gate, value, dproduct = symbols("g", 2), symbols("v", 2), symbols("d", 2)
    product, cache = gated_product(gate, value)
    gradients = gated_product_backward(dproduct, cache)
    assert_exact((product * dproduct).sum(), [gate, value], gradients)


@pytest.mark.equation("eq:gated-product")
@given(generators, sizes, sizes)
def test_it_is_linear_in_each_factor(rng, rows, width):
    gate, value, dproduct = rng.normal(size=(3, rows, width))
    product, cache = gated_product(gate, value)
    dgate, dvalue = gated_product_backward(dproduct, cache)
    assert np.array_equal(gated_product(2 * gate, value)[0], 2 * product)
    assert np.allclose((dgate * gate).sum(), (dproduct * product).sum(), atol=1e-12)
    assert np.allclose((dvalue * value).sum(), (dproduct * product).sum(), atol=1e-12)


def test_factors_of_two_shapes_are_named():
    with pytest.raises(ValueError, match=r"value: expected shape \(2, 3\), got \(3,\)"):
        gated_product(np.ones((2, 3)), np.ones(3))
