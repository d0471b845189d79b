import numpy as np
import pytest
from helpers.cases import OPS
from helpers.exact import assert_exact, symbols
from helpers.witnesses import generators, normal, sizes
from hypothesis import given

from transformer_core.ops import linear, low_rank, low_rank_backward


@pytest.mark.equation("eq:low-rank-backward")
def test_gradients_agree_with_the_witnesses(check):
    check.op(OPS["low_rank"])


@pytest.mark.equation("eq:low-rank-backward")
def test_gradients_are_exact():
    x, a, b, dy = (
        symbols(*given) for given in (("x", 2, 2), ("a", 2, 1), ("b", 1, 2), ("d", 2, 2))
    )
    y, cache = low_rank(x, a, b, 3)
    assert_exact((dy * y).sum(), [x, a, b], low_rank_backward(dy, cache))


@pytest.mark.equation("eq:low-rank")
@given(generators, sizes, sizes)
def test_it_is_linear_with_the_product(rng, rank, width):
    x, a, b = (normal(rng, shape) for shape in ((2, 3, 4), (4, rank), (rank, width)))
    assert np.allclose(
        low_rank(x, a, b, 0.3 * rank)[0], linear(x, 0.3 * a @ b)[0], rtol=1e-10, atol=1e-12
    )


@pytest.mark.equation("eq:lora-projected")
@given(generators, sizes, sizes)
def test_the_gradients_are_projections_of_that_of_the_product(rng, rank, width):
    """What linear would return for W, seen through B and through A."""
    x, a, b = (normal(rng, shape) for shape in ((2, 3, 4), (4, rank), (rank, width)))
    dy = normal(rng, (2, 3, width))
    _, cache = low_rank(x, a, b, 0.3 * rank)
    _, da, db = low_rank_backward(dy, cache)
    dweight = x.reshape(-1, 4).T @ dy.reshape(-1, width)
    assert np.allclose(da, 0.3 * dweight @ b.T, rtol=1e-10, atol=1e-12)
    assert np.allclose(db, 0.3 * a.T @ dweight, rtol=1e-10, atol=1e-12)
    assert np.isclose((a * da).sum(), (b * db).sum(), rtol=1e-10, atol=1e-12)


@given(generators)
def test_where_one_factor_is_zero_only_its_own_gradient_is_left(rng):
    x, a, b, dy = (normal(rng, shape) for shape in ((2, 3, 4), (4, 2), (2, 5), (2, 3, 5)))
    y, cache = low_rank(x, a, 0 * b, 1.7)
    dx, da, db = low_rank_backward(dy, cache)
    assert not any(array.any() for array in (y, dx, da)) and db.any()
    _, cache = low_rank(x, 0 * a, b, 1.7)
    dx, da, db = low_rank_backward(dy, cache)
    assert not any(array.any() for array in (dx, db)) and da.any()
