import numpy as np
import pytest
from helpers.cases import OPS
from helpers.witnesses import generators, sizes
from hypothesis import given

from transformer_core.ops import relu, relu_backward


@pytest.mark.equation("eq:relu-backward")
def test_gradient_agrees_with_the_witnesses(check):
    check.op(OPS["relu"])


@pytest.mark.equation("eq:relu")
@given(generators, sizes, sizes)
def test_negative_entries_become_zero(rng, rows, columns):
    x = rng.normal(size=(rows, columns))
    y, _ = relu(x)
    assert np.array_equal(y, np.maximum(x, 0))


@pytest.mark.equation("eq:relu-backward")
def test_gradient_passes_only_where_the_input_is_positive():
    _, cache = relu(np.array([-2.0, -0.0, 0.0, 1e-300, 3.0]))
    dy = np.array([5.0, 5.0, 5.0, 5.0, 5.0])
    assert np.array_equal(relu_backward(dy, cache), [0, 0, 0, 5, 5])


def test_nan_is_not_hidden():
    y, _ = relu(np.array([np.nan, -1.0]))
    assert np.isnan(y[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_infinity_is_a_number_like_others(dtype):
    y, _ = relu(np.array([[-np.inf, -1.0, np.inf]], dtype))
    assert np.array_equal(y, [[0, 0, np.inf]]) and y.dtype == dtype


def test_at_the_real_part_0_the_imaginary_part_is_dropped_too():
    y, _ = relu(np.array([1j, -1j, 2 + 1j, -2 + 1j]))
    assert np.array_equal(y, [0, 0, 2 + 1j, 0])
