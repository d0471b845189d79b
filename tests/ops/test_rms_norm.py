import numpy as np
import pytest
import sympy
from helpers.cases import OPS
from helpers.exact import assert_exact, is_zero, symbols
from helpers.witnesses import generators, sizes
from hypothesis import given

from book.sentence import EMBEDDING
from transformer_core.ops import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward


@pytest.mark.equation("eq:rms-norm-backward")
def test_gradients_agree_with_the_witnesses(check):
    check.op(OPS["rms_norm"])


@pytest.mark.equation("eq:rms-norm-backward")
@pytest.mark.equation("eq:rms-norm-backward-parameters")
def test_gradients_are_exact(symbolic):
    x, gamma, dy = symbols("x", 3), symbols("g", 3), symbols("d", 3)
    y, cache = rms_norm(x, gamma, sympy.Symbol("eps", positive=True))
    assert_exact((y * dy).sum(), [x, gamma], rms_norm_backward(dy, cache))


@pytest.mark.equation("eq:rms-norm-backward-square")
@pytest.mark.equation("eq:rms-norm-backward-terms")
def test_the_two_terms_sum_to_the_compact_form(symbolic):
    x, gamma, dy = symbols("x", 3), symbols("g", 3), symbols("d", 3)
    eps, square = sympy.symbols("eps q", positive=True)
    g, of_x = dy * gamma, (x * x).sum() / 3
    dsquare = (g * x).sum() / sympy.sqrt(square + eps)
    dsquare = dsquare.diff(square).subs(square, of_x)
    assert is_zero(dsquare + (g * x).sum() / (2 * sympy.sqrt(of_x + eps) ** 3))
    dx, _ = rms_norm_backward(dy, rms_norm(x, gamma, eps)[1])
    for term in g / sympy.sqrt(of_x + eps) + dsquare * 2 * x / 3 - dx:
        assert is_zero(term)


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


@pytest.mark.equation("eq:rms-norm-jacobian")
@given(generators, sizes, sizes)
def test_the_jacobian_leaves_out_the_row_alone(rng, rows, width):
    x, gamma = rng.normal(size=width), rng.normal(size=width)
    y, cache = rms_norm(np.tile(x, (width, 1)), gamma, eps=1e-30)
    jacobian, _ = rms_norm_backward(np.eye(width), cache)
    x_hat = cache.x_hat[0]
    projection = np.eye(width) - np.outer(x_hat, x_hat) / width
    assert np.allclose(jacobian, cache.inv_rms[0] * gamma[:, np.newaxis] * projection, atol=1e-9)
    assert np.allclose(projection @ x, 0, atol=1e-12)
    assert np.linalg.matrix_rank(projection, tol=1e-9) == width - 1


@pytest.mark.equation("eq:rms-norm-centred")
@given(generators, sizes, sizes)
def test_layer_norm_is_rms_norm_of_the_centred_row(rng, rows, width):
    x, dy = rng.normal(size=(2, rows, width))
    gamma, beta = rng.normal(size=(2, width))
    centre = np.eye(width) - 1 / width
    y, cache = rms_norm(x @ centre, gamma, eps=0.1)
    expected, layer_norm_cache = layer_norm(x, gamma, beta, eps=0.1)
    assert np.allclose(y + beta, expected, atol=1e-12)
    dx, _ = rms_norm_backward(dy, cache)
    expected, *_ = layer_norm_backward(dy, layer_norm_cache)
    assert np.allclose(dx @ centre, expected, atol=1e-12)


@given(generators, sizes, sizes)
def test_a_scale_of_the_input_is_one_of_eps(rng, rows, width):
    x, gamma = rng.normal(size=(rows, width)), rng.normal(size=width)
    y, _ = rms_norm(7 * x, gamma, eps=4.9)
    assert np.allclose(y, rms_norm(x, gamma, eps=0.1)[0], atol=1e-12)


def test_the_sentence_by_hand():
    gamma, dy = np.array([2.0, 1, 3, 1]), np.array([3.0, 3, 1, 0])
    y, cache = rms_norm(EMBEDDING[0], gamma, eps=1e-30)
    dx, dgamma = rms_norm_backward(dy, cache)
    root = np.sqrt(10)
    assert np.allclose(y * root, [8, 2, 6, -4])
    assert np.allclose(dx * root, [2.4, 1.2, 1.2, 3.6])
    assert np.allclose(dgamma * root, [12, 6, 2, 0])


def test_eps_is_a_hundred_thousandth_unless_told_otherwise():
    y, _ = rms_norm(np.sqrt(1e-5) * np.array([1.0, -1.0]), np.ones(2))
    assert np.allclose(y * np.sqrt(2), [1, -1], rtol=1e-12)


def test_half_precision_is_right_where_a_square_overflows(rng):
    x, one = rng.normal(size=(2, 64)).astype(np.float16), np.ones(64)
    x[:, 0] = 400
    y, _ = rms_norm(x, one.astype(np.float16))
    assert y.dtype == np.float16
    assert np.allclose(y, rms_norm(x.astype(float), one)[0], atol=0.01)


@pytest.mark.parametrize("size, dtype", [(1e20, np.float32), (1e160, np.float64)])
def test_a_mean_square_that_overflows_is_named(size, dtype):
    x, one = np.array([[1, -1], [size, -size]], dtype), np.ones(2, dtype)
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="x: .* range of .*, got inf"):
        rms_norm(x, one)
