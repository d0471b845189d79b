import numpy as np
import pytest
from helpers.cases import OPS
from helpers.exact import assert_exact, symbols
from helpers.witnesses import generators, normal, sizes
from hypothesis import given

from transformer_core.ops import mean_pool, mean_pool_backward

CASES = "mean_pool", "mean_pool, padding"
KEEP = np.array([[True, False, True]])


@pytest.mark.equation("eq:mean-pool-backward")
@pytest.mark.parametrize("case", CASES)
def test_gradient_agrees_with_the_witnesses(check, case):
    check.op(OPS[case])


@pytest.mark.equation("eq:mean-pool-backward")
def test_gradient_is_exact():
    x, dy = symbols("x", 1, 3, 2), symbols("d", 1, 2)
    y, cache = mean_pool(x, KEEP)
    assert_exact((dy * y).sum(), [x], [mean_pool_backward(dy, cache)])


@pytest.mark.equation("eq:mean-pool")
def test_padding_takes_no_part(rng):
    x = normal(rng, (1, 3, 4))
    y, _ = mean_pool(x, KEEP)
    assert np.allclose(y, (x[:, 0] + x[:, 2]) / 2)
    x[:, 1] = np.nan
    assert np.array_equal(mean_pool(x, KEEP)[0], y)


@pytest.mark.equation("eq:mean-pool-sum")
@given(generators, sizes, sizes, sizes)
def test_the_gradients_of_a_sequence_sum_to_the_cotangent(rng, batch, length, width):
    keep = rng.random((batch, length)) < 0.6
    _, cache = mean_pool(normal(rng, (batch, length, width)), keep)
    dy = normal(rng, (batch, width))
    dx = mean_pool_backward(dy, cache)
    assert np.allclose(dx.sum(axis=1), np.where(keep.any(axis=1)[:, None], dy, 0))
    assert not dx[~keep].any()


def test_the_first_row_alone_is_what_it_is(rng):
    x = normal(rng, (2, 3, 4))
    assert np.array_equal(mean_pool(x, np.array([[True, False, False]] * 2))[0], x[:, 0])
