import numpy as np
import pytest
import sympy
from helpers.cases import OPS
from helpers.exact import assert_exact, symbols
from helpers.witnesses import generators, sizes
from hypothesis import given

from transformer_core.ops import l2_normalize, l2_normalize_backward
from transformer_core.ops.l2_normalize import L2NormalizeCache


@pytest.mark.equation("eq:l2-normalize-backward")
def test_gradient_agrees_with_the_witnesses(check):
    check.op(OPS["l2_normalize"])


@pytest.mark.equation("eq:l2-normalize-backward")
def test_gradient_is_exact():
    x, dy = symbols("x", 3), symbols("d", 3)
    length = sympy.sqrt((x * x).sum())
    dx = l2_normalize_backward(dy, L2NormalizeCache(x / length, 1 / length))
    assert_exact((x / length * dy).sum(), [x], [dx])


@pytest.mark.equation("eq:l2-normalize")
def test_a_row_by_hand():
    y, cache = l2_normalize(np.array([[3.0, 4]]))
    assert np.allclose(y, [[0.6, 0.8]], rtol=1e-15)
    assert np.allclose(l2_normalize_backward(np.array([[1.0, 0]]), cache), [[0.128, -0.096]])


@pytest.mark.equation("eq:l2-normalize-orthogonal")
@given(generators, sizes, sizes)
def test_the_gradient_is_orthogonal_so_that_a_step_makes_rows_longer(rng, rows, width):
    x, dy = rng.normal(size=(2, rows, width))
    _, cache = l2_normalize(x)
    dx = l2_normalize_backward(dy, cache)
    assert np.allclose((dx * x).sum(axis=-1), 0, atol=1e-12)
    longer = ((x - 0.3 * dx) ** 2).sum(axis=-1)
    assert np.allclose(longer, (x**2).sum(axis=-1) + 0.09 * (dx**2).sum(axis=-1))


@given(generators, sizes, sizes)
def test_a_longer_row_has_the_same_direction_and_a_smaller_gradient(rng, rows, width):
    x, dy = rng.normal(size=(2, rows, width))
    (y, cache), (y_longer, longer) = l2_normalize(x), l2_normalize(8 * x)
    assert np.array_equal(y_longer, y)
    assert np.allclose(
        8 * l2_normalize_backward(dy, longer), l2_normalize_backward(dy, cache), rtol=1e-14
    )


@given(generators, sizes)
def test_jacobian_is_a_projection_over_the_length(rng, width):
    x = rng.normal(size=width)
    y, cache = l2_normalize(np.tile(x, (width, 1)))
    projection = l2_normalize_backward(np.eye(width), cache) * np.linalg.norm(x)
    assert np.allclose(projection @ projection, projection, atol=1e-12)
    assert np.allclose(projection, np.eye(width) - np.outer(y[0], y[0]), atol=1e-12)


def test_a_row_of_zeros_stays_and_gets_no_gradient():
    y, cache = l2_normalize(np.array([[0.0, 0], [3, 4]]))
    assert np.allclose(y, [[0, 0], [0.6, 0.8]])
    dx = l2_normalize_backward(np.ones((2, 2)), cache)
    assert not dx[0].any() and dx[1].any()


@pytest.mark.parametrize("size, dtype", [(1e-30, np.float32), (1e30, np.float32), (1e200, float)])
def test_no_square_overflows_or_vanishes(size, dtype):
    y, _ = l2_normalize(np.array([[3, 4]], dtype) * dtype(size))
    assert y.dtype == dtype and np.allclose(y, [[0.6, 0.8]], rtol=1e-6)
