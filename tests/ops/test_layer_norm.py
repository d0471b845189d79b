import numpy as np
import pytest
import sympy
from helpers.cases import OPS
from helpers.exact import assert_exact, is_zero, symbols
from helpers.witnesses import generators, sizes
from hypothesis import given

from book.sentence import EMBEDDING
from transformer_core.ops import layer_norm, layer_norm_backward
from transformer_core.ops.layer_norm import mean


@pytest.mark.equation("eq:layer-norm-backward")
def test_gradients_agree_with_the_witnesses(check):
    check.op(OPS["layer_norm"])


@pytest.fixture
def symbolic_layer_norm(symbolic):
    """One position of D = 3, its arrays, its loss and the gradients of the package."""
    arrays = symbols("x", 3), symbols("g", 3), symbols("b", 3)
    eps = sympy.Symbol("eps", positive=True)
    dy = symbols("d", 3)
    y, cache = layer_norm(*arrays, eps)
    return arrays, eps, dy, (y * dy).sum(), layer_norm_backward(dy, cache)


@pytest.mark.slow
@pytest.mark.equation("eq:layer-norm-backward")
@pytest.mark.equation("eq:layer-norm-backward-parameters")
def test_gradients_are_exact(symbolic_layer_norm):
    arrays, _, _, loss, gradients = symbolic_layer_norm
    assert_exact(loss, arrays, gradients)


def moments_backward(x, g, eps):
    """The gradients of the variance and of the mean, as the derivation has them."""
    centered = x - x.sum() / 3
    std = sympy.sqrt((centered**2).sum() / 3 + eps)
    return -(g * centered).sum() / (2 * std**3), -g.sum() / std


@pytest.mark.equation("eq:layer-norm-backward-moments")
def test_gradients_of_the_moments_are_exact():
    x, g = symbols("x", 3), symbols("g", 3)
    eps, mean, variance = sympy.symbols("eps mean variance", positive=True)
    loss = (g * (x - mean)).sum() / sympy.sqrt(variance + eps)
    by_variance = loss.diff(variance)
    of_mean = ((x - mean) ** 2).sum() / 3
    by_mean = loss.subs(variance, of_mean).diff(mean)
    at = {variance: of_mean, mean: x.sum() / 3}
    for derivative, gradient in zip(
        (by_variance, by_mean), moments_backward(x, g, eps), strict=True
    ):
        assert is_zero(derivative.subs(at).subs(at) - gradient)


@pytest.mark.equation("eq:layer-norm-backward-terms")
def test_the_three_terms_sum_to_the_compact_form(symbolic_layer_norm):
    (x, gamma, _), eps, dy, _, (dx, _, _) = symbolic_layer_norm
    g = dy * gamma
    centered = x - x.sum() / 3
    dvariance, dmean = moments_backward(x, g, eps)
    scale_term = g / sympy.sqrt((centered**2).sum() / 3 + eps)
    variance_term = dvariance * 2 * centered / 3
    mean_term = dmean / 3
    for difference in scale_term + variance_term + mean_term - dx:
        assert is_zero(difference)


@pytest.mark.equation("eq:layer-norm")
def test_output_has_the_mean_and_the_variance_it_promises(rng):
    x = rng.normal(2, 3, (2, 3, 8))
    y, cache = layer_norm(x, np.ones(8), np.zeros(8), eps=0.5)
    assert np.allclose(y.mean(axis=-1), 0, atol=1e-15)
    assert np.allclose(y.var(axis=-1), x.var(axis=-1) / (x.var(axis=-1) + 0.5))
    assert np.allclose(cache.inv_std[..., 0], (x.var(axis=-1) + 0.5) ** -0.5)


def test_the_sentence_is_normalised_by_its_round_numbers():
    y, _ = layer_norm(EMBEDDING, np.ones(4), np.zeros(4), eps=1e-12)
    assert np.allclose(y[0] * 3, [3, 1, 1, -5])
    assert np.allclose(y[1], [1, -1, 1, -1])


@given(generators, sizes, sizes)
def test_input_gradient_is_orthogonal_to_ones(rng, rows, width):
    x, dy = rng.normal(size=(2, rows, width))
    gamma, beta = rng.normal(size=(2, width))
    _, cache = layer_norm(x, gamma, beta)
    dx, _, _ = layer_norm_backward(dy, cache)
    assert np.abs(dx.sum(axis=-1) / cache.inv_std[..., 0]).max() < 1e-13


@given(generators, sizes, sizes)
def test_input_gradient_along_x_hat_is_as_small_as_eps(rng, rows, width):
    x, dy = rng.normal(size=(2, rows, width))
    gamma, beta = rng.normal(size=(2, width))
    eps = 0.1
    _, cache = layer_norm(x, gamma, beta, eps)
    dx, _, _ = layer_norm_backward(dy, cache)
    along = (dx * cache.x_hat).sum(axis=-1)
    share = eps / (x.var(axis=-1) + eps)
    projection = (dy * gamma * cache.x_hat).sum(axis=-1)
    assert np.allclose(along, cache.inv_std[..., 0] * projection * share, atol=1e-13)


@given(generators, sizes, sizes)
def test_shift_and_scale_of_the_input_change_nothing(rng, rows, width):
    x = rng.normal(size=(rows, width + 1))
    gamma, beta = rng.normal(size=(2, width + 1))
    y, _ = layer_norm(x, gamma, beta, eps=1e-12)
    moved, _ = layer_norm(7 * x + 5, gamma, beta, eps=49e-12)
    assert np.allclose(moved, y, atol=1e-9)


def test_a_constant_position_gives_beta(rng):
    beta = rng.normal(size=4)
    y, cache = layer_norm(np.full((2, 4), 3.0), rng.normal(size=4), beta)
    dx, _, _ = layer_norm_backward(rng.normal(size=(2, 4)), cache)
    assert np.array_equal(y, [beta, beta])
    assert np.isfinite(dx).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 5, 192, 768])
def test_a_large_constant_position_gives_beta_too(rng, width, dtype):
    size = 1 / np.finfo(dtype).eps
    x = np.tile(rng.uniform(1e-4 * size, size, (50, 1)), width).astype(dtype)
    y, _ = layer_norm(x, np.ones(width, dtype), np.ones(width, dtype))
    assert np.abs(y - 1).max() < 1e-6


def test_small_differences_of_large_numbers_are_found(rng):
    x = (2**20 + rng.integers(0, 8, (20, 192)) / 8).astype(np.float32)
    ones, zeros = np.ones((2, 192), np.float32) * [[1], [0]]
    y, _ = layer_norm(x, ones.astype("f4"), zeros.astype("f4"))
    expected, _ = layer_norm(x.astype(float) - 2**20, ones, zeros)
    assert np.allclose(y, expected, atol=1e-5)


@pytest.mark.parametrize("size, dtype", [(1e20, np.float32), (1e160, np.float64)])
def test_a_variance_that_overflows_is_named(size, dtype):
    x, one = np.array([[1, -1], [size, -size]], dtype), np.ones(2, dtype)
    with pytest.raises(ValueError, match=f"x: .* range of {one.dtype}, got inf"):
        layer_norm(x, one, one)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_means_and_means_of_products_are_those_of_the_plain_form(rng, shape, dtype):
    a, b = rng.normal(size=(2, *shape)).astype(dtype)
    for result, product in ((mean(a, b), a * b), (mean(a), a)):
        plain = product.mean(axis=-1, keepdims=True)
        assert result.shape == plain.shape and result.dtype == plain.dtype
        assert np.allclose(result, plain, rtol=1e-6, atol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize(
    "x, gamma, beta, eps, message",
    [
        (np.ones((2, 4)), np.ones(3), np.ones(4), 1, r"gamma: .* \(4\), got \(3,\)"),
        (np.ones((2, 4)), np.ones(4), np.ones(3), 1, r"beta: .* \(4\), got \(3,\)"),
        (np.ones((2, 4)), np.ones(4), np.ones(4), 0, "eps: expected a positive .* 0"),
        (np.ones(4), np.ones(4), np.ones(4), np.nan, "eps: expected .* got nan"),
        (np.array(1.0), np.ones(1), np.ones(1), 1, r"x: .* shape \(\.\.\., D\), got \(\)"),
    ],
)
def test_bad_input_is_named(x, gamma, beta, eps, message):
    with pytest.raises(ValueError, match=message):
        layer_norm(x, gamma, beta, eps)


def test_eps_is_a_hundred_thousandth_unless_told_otherwise():
    x = np.sqrt(1e-5) * np.array([1.0, -1.0])  # its variance is eps
    y, _ = layer_norm(x, np.ones(2), np.zeros(2))
    assert np.allclose(y * np.sqrt(2), [1, -1], rtol=1e-12)


def test_half_precision_is_right_where_the_sum_of_a_row_overflows(rng):
    x = (100 + rng.normal(size=(2, 768))).astype(np.float16)
    one, zero = np.ones(768), np.zeros(768)
    y, _ = layer_norm(x, one.astype(np.float16), zero.astype(np.float16))
    assert y.dtype == np.float16
    assert np.allclose(y, layer_norm(x.astype(float), one, zero)[0], atol=0.05)
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="range of float16, got inf"):
        layer_norm(x * np.tile(np.array([10, -10], np.float16), 384), one, zero)
