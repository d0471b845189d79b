from math import exp

import numpy as np
import pytest
import sympy
from helpers.cases import OPS
from helpers.exact import assert_exact, symbols
from helpers.witnesses import generators, sizes
from hypothesis import given

from transformer_core.ops import silu, silu_backward
from transformer_core.ops.silu import SiluCache


@pytest.mark.equation("eq:silu-backward")
def test_gradient_agrees_with_the_witnesses(check):
    check.op(OPS["silu"])


@pytest.mark.equation("eq:silu-backward")
def test_gradient_is_exact():
    x, dy = symbols("x", 1), symbols("d", 1)
    sigmoid = np.array([1 / (1 + sympy.exp(-x[0]))])
    assert_exact((x * sigmoid * dy).sum(), [x], [silu_backward(dy, SiluCache(x, sigmoid))])


@pytest.mark.equation("eq:silu")
@given(generators, sizes, sizes)
def test_values_are_those_of_the_formula(rng, rows, columns):
    x = rng.normal(0, 3, (rows, columns))
    expected = [a / (1 + exp(-a)) for a in x.flat]
    assert np.allclose(silu(x)[0].ravel(), expected, rtol=1e-12, atol=1e-15)


@given(generators, sizes, sizes)
def test_the_output_and_its_mirror_image_differ_by_the_input(rng, rows, columns):
    x = rng.normal(0, 3, (rows, columns))
    y, cache = silu(x)
    mirrored, cache_mirrored = silu(-x)
    assert np.allclose(y - mirrored, x, rtol=1e-14)
    ones = np.ones_like(x)
    slopes = silu_backward(ones, cache) + silu_backward(ones, cache_mirrored)
    assert np.allclose(slopes, 1, rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_from_zero_it_is_relu(dtype):
    x = np.array([-1e4, -100, 0, 100, 1e4], dtype)
    with np.errstate(all="raise", under="ignore"):
        y, cache = silu(x)
        dx = silu_backward(np.ones_like(x), cache)
    assert np.array_equal(y, [0, 0, 0, 100, 1e4])
    assert np.array_equal(dx, [0, 0, 0.5, 1, 1])
