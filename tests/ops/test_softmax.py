import numpy as np
import pytest
from helpers.cases import MASKS, OPS
from helpers.exact import assert_exact, symbols
from helpers.witnesses import broadcastable, generators, sizes
from hypothesis import given

from book.sentence import KEY, QUERY
from transformer_core.ops import log_softmax, softmax, softmax_backward
from transformer_core.ops.softmax import SoftmaxCache


@pytest.mark.equation("eq:softmax-backward")
@pytest.mark.parametrize("mask", MASKS)
def test_gradient_agrees_with_the_witnesses(check, mask):
    check.op(OPS[f"softmax, {mask}"])


@pytest.mark.equation("eq:softmax-backward")
def test_gradient_is_exact(symbolic):
    x, dweights = symbols("x", 1, 3), symbols("d", 1, 3)
    weights = np.exp(x) / np.exp(x).sum()
    dx = softmax_backward(dweights, SoftmaxCache(weights))
    assert_exact((weights * dweights).sum(), [x], [dx])


@pytest.mark.equation("eq:softmax-jacobian")
def test_jacobian_is_exact(symbolic):
    x = symbols("x", 1, 3)
    (weights,) = np.exp(x) / np.exp(x).sum()
    jacobian = np.diag(weights) - np.outer(weights, weights)
    for weight, row in zip(weights, jacobian, strict=True):
        assert_exact(weight, [x[0]], [row])


def test_weights_of_the_sentence_are_fractions_of_7():
    weights, cache = softmax(QUERY @ KEY.T / np.sqrt(4))
    assert np.allclose(weights[1] * 7, [4, 1, 2])
    dx = softmax_backward(np.array([[0.0] * 3, [7.0, 0, 0], [0.0] * 3]), cache)
    assert np.allclose(dx[1] * 7, [12, -4, -8])


@given(generators, sizes, sizes, sizes, sizes)
def test_gradient_rows_sum_to_zero(rng, batch, heads, queries, keys):
    x, dweights = rng.normal(size=(2, batch, heads, queries, keys))
    for keep in (None, broadcastable(rng, *x.shape)):
        _, cache = softmax(x, keep)
        dx = softmax_backward(dweights, cache)
        assert np.abs(dx.sum(axis=-1)).max() < 1e-14


@pytest.mark.equation("eq:softmax-shift")
@given(generators, sizes, sizes)
def test_a_shift_of_all_scores_changes_nothing(rng, rows, columns):
    x = rng.normal(size=(rows, columns))
    shift = rng.normal(0, 10, (rows, 1))
    assert np.allclose(softmax(x + shift)[0], softmax(x)[0], rtol=1e-12)


@given(generators, sizes)
def test_jacobian_is_symmetric_and_sends_ones_to_zero(rng, columns):
    x = np.tile(rng.normal(size=columns), (columns, 1))
    _, cache = softmax(x)
    jacobian = softmax_backward(np.eye(columns), cache)
    assert np.allclose(jacobian, jacobian.T, rtol=0, atol=1e-15)
    assert np.allclose(jacobian.sum(axis=1), 0, rtol=0, atol=1e-15)
    assert np.linalg.eigvalsh(jacobian).min() > -1e-15


@given(generators, sizes, sizes)
def test_masked_scores_take_no_part(rng, rows, columns):
    x, dweights = rng.normal(size=(2, rows, columns))
    keep = rng.random((rows, columns)) < 0.5
    weights, cache = softmax(x, keep)
    dx = softmax_backward(dweights, cache)
    assert (weights[~keep] == 0).all() and (dx[~keep] == 0).all()
    assert np.allclose(weights.sum(axis=-1), keep.any(axis=-1), rtol=1e-14)
    for row in range(rows):
        if keep[row].any():
            alone, _ = softmax(x[row, keep[row]])
            assert np.allclose(weights[row, keep[row]], alone, rtol=1e-14)


@given(generators, sizes, sizes, sizes, sizes)
def test_a_mask_holds_along_the_axes_that_it_has_not(rng, batch, heads, queries, keys):
    x, dweights = rng.normal(size=(2, batch, heads, queries, keys))
    keep = broadcastable(rng, *x.shape)
    weights, cache = softmax(x, keep)
    expected, full_cache = softmax(x, np.broadcast_to(keep, x.shape).copy())
    assert np.array_equal(weights, expected)
    dx = softmax_backward(dweights, cache)
    assert np.array_equal(dx, softmax_backward(dweights, full_cache))


@given(generators, sizes, sizes)
def test_a_mask_that_keeps_everything_changes_nothing(rng, rows, columns):
    x = rng.normal(size=(rows, columns))
    masked, _ = softmax(x, np.ones((rows, columns), bool))
    assert np.array_equal(masked, softmax(x)[0])


@pytest.mark.parametrize(
    "first, keep",
    [(-np.inf, None), (-np.inf, np.array([[True], [True]])), (1.0, np.array([[False], [True]]))],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_a_row_of_nothing_gets_zeros(rng, dtype, first, keep):
    x = rng.normal(size=(2, 3)).astype(dtype)
    x[0] = first
    with np.errstate(all="raise"):
        weights, cache = softmax(x, keep)
        dx = softmax_backward(np.ones_like(x), cache)
    assert (weights[0] == 0).all() and (dx[0] == 0).all()
    assert np.isclose(weights[1].sum(), 1)


@pytest.mark.equation("eq:log-sum-exp-shift")
@given(generators, sizes, sizes)
def test_the_logarithm_is_that_of_the_weights(rng, rows, columns):
    x = rng.normal(0, 5, (rows, columns))
    assert np.allclose(log_softmax(x), np.log(softmax(x)[0]), rtol=1e-12, atol=1e-14)


def test_the_logarithm_is_finite_where_the_weight_is_not():
    x = np.array([[1e4, 0, -1e4], [-1e30, -1e30, 1e30]])
    assert np.array_equal(log_softmax(x), [[0, -1e4, -2e4], [-2e30, -2e30, 0]])
    assert np.array_equal(log_softmax(np.full(3, -np.inf)), [-np.inf] * 3)
    assert log_softmax(x.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("keep", [None, np.array([True, True, False])])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_scores_do_not_overflow(dtype, keep):
    x = np.array([[1e4, 0, -1e4], [-1e30, -1e30, 1e30]], dtype)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        weights, cache = softmax(x, keep)
        dx = softmax_backward(np.ones_like(x), cache)
    expected = [[1, 0, 0], [0, 0, 1] if keep is None else [0.5, 0.5, 0]]
    assert np.array_equal(weights, expected)
    assert np.isfinite(dx).all()


@pytest.mark.parametrize(
    "x, keep, message",
    [
        (np.array(1.0), None, r"x: expected shape \(\.\.\., S\), got \(\)"),
        (np.ones((2, 3)), np.ones(3), "keep: expected booleans, .* got float64"),
        (np.ones((2, 3)), np.ones(4, bool), r"broadcasts to \(2, 3\), got \(4,\)"),
        (np.ones(3), np.ones((2, 3), bool), r"broadcasts to \(3,\), got \(2, 3\)"),
    ],
)
def test_bad_input_is_named(x, keep, message):
    with pytest.raises(ValueError, match=message):
        softmax(x, keep)


def test_bad_input_of_the_logarithm_is_named():
    with pytest.raises(ValueError, match=r"x: expected shape \(\.\.\., S\), got \(\)"):
        log_softmax(np.ones(()))
    with pytest.raises(ValueError, match="x: expected .*floating-point numbers, got int64"):
        log_softmax(np.ones((2, 3), int))
