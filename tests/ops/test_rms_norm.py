import numpy as np
import pytest
import sympy
from helpers.cases import OPS
from helpers.witnesses import assert_exact, generators, sizes, symbols
from hypothesis import given

from transformer_core.ops import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward


@pytest.mark.equation("eq:rms-norm-backward")
def test_gradients_agree_with_the_witnesses(check):
    check.op(OPS["rms_norm"])


@pytest.mark.equation("eq:rms-norm-backward")
def test_gradients_are_exact(symbolic):
    x, gamma, dy = symbols("x", 3), symbols("g", 3), symbols("d", 3)
    y, cache = rms_norm(x, gamma, sympy.Symbol("eps", positive=True))
    assert_exact((y * dy).sum(), [x, gamma], rms_norm_backward(dy, cache))


@pytest.mark.equation("eq:rms-norm")
def test_a_row_by_hand():
    y, _ = rms_norm(np.array([[3.0, 4.0, 0.0, 0.0]]), np.array([1.0, 2.0, 1.0, 1.0]), 0.25)
    assert np.allclose(y * np.sqrt(6.5), [[3, 8, 0, 0]], rtol=1e-15)


@given(generators, sizes, sizes)
def test_of_rows_with_mean_zero_it_is_layer_norm(rng, rows, width):
    x, dy = rng.normal(size=(2, rows, width))
    x -= x.mean(axis=-1, keepdims=True)
    gamma = rng.normal(size=width)
    y, cache = rms_norm(x, gamma)
    expected, layer_norm_cache = layer_norm(x, gamma, np.zeros(width))
    assert np.allclose(y, expected, atol=1e-12)
    _, dgamma = rms_norm_backward(dy, cache)
    assert np.allclose(dgamma, layer_norm_backward(dy, layer_norm_cache)[1], atol=1e-12)


@given(generators, sizes, sizes)
def test_input_gradient_along_the_input_is_as_small_as_eps(rng, rows, width):
    x, dy = rng.normal(size=(2, rows, width))
    gamma, eps = rng.normal(size=width), 0.1
    _, cache = rms_norm(x, gamma, eps)
    dx, _ = rms_norm_backward(dy, cache)
    along = eps * cache.inv_rms[..., 0] ** 3 * (dy * gamma * x).sum(axis=-1)
    assert np.allclose((dx * x).sum(axis=-1), along, atol=1e-12)


@pytest.mark.parametrize("size, dtype", [(1e20, np.float32), (1e160, np.float64)])
def test_a_mean_square_that_overflows_is_named(size, dtype):
    x, one = np.array([[1, -1], [size, -size]], dtype), np.ones(2, dtype)
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="x: .* range of .*, got inf"):
        rms_norm(x, one)
