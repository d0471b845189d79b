import numpy as np
import pytest
import sympy
from helpers.cases import OPS
from helpers.exact import assert_exact, symbols
from helpers.witnesses import generators, sizes
from hypothesis import given

from transformer_core.ops import tanh, tanh_backward
from transformer_core.ops.tanh import TanhCache


@pytest.mark.equation("eq:tanh-backward")
def test_gradient_agrees_with_the_witnesses(check):
    check.op(OPS["tanh"])


@pytest.mark.equation("eq:tanh-backward")
def test_gradient_is_exact():
    x, dy = symbols("x", 1), symbols("d", 1)
    y = np.array([sympy.tanh(x[0])])
    assert_exact((y * dy).sum(), [x], [tanh_backward(dy, TanhCache(y))])


@pytest.mark.equation("eq:tanh")
@given(generators, sizes, sizes)
def test_it_is_odd_and_its_slope_is_even(rng, rows, columns):
    x = rng.normal(0, 3, (rows, columns))
    y, cache = tanh(x)
    mirrored, mirrored_cache = tanh(-x)
    ones = np.ones_like(x)
    assert np.array_equal(y, -mirrored) and (np.abs(y) <= 1).all()
    assert np.array_equal(tanh_backward(ones, cache), tanh_backward(ones, mirrored_cache))
