import numpy as np
import pytest
import sympy
from helpers.cases import OPS
from helpers.exact import assert_exact, symbols

from transformer_core.ops import mean_squared_error, mean_squared_error_backward


@pytest.mark.equation("eq:mean-squared-error-backward")
def test_gradient_agrees_with_the_witnesses(check):
    check.op(OPS["mean_squared_error"])


@pytest.mark.equation("eq:mean-squared-error-backward")
def test_gradient_is_exact():
    prediction, target = symbols("y", 2, 3), symbols("t", 2, 3)
    dloss = sympy.Symbol("d", real=True)
    loss, cache = mean_squared_error(prediction, target)
    gradient = mean_squared_error_backward(dloss, cache)
    assert_exact(loss * dloss, [prediction], [gradient])


@pytest.mark.equation("eq:mean-squared-error")
def test_every_entry_counts_the_same():
    prediction = np.array([[[1.0, 2.0, 3.0]], [[4.0, 5.0, 6.0]]])
    target = np.array([[[1.0, 0.0, 0.0]], [[4.0, 5.0, 5.0]]])
    loss, cache = mean_squared_error(prediction, target)
    assert np.isclose(loss, (4 + 9 + 1) / 6)
    gradient = mean_squared_error_backward(3, cache)
    assert np.allclose(gradient, [[[0, 2, 3]], [[0, 0, 1]]])


def test_a_perfect_prediction_has_no_loss_and_no_gradient(rng):
    target = rng.normal(size=(2, 3))
    loss, cache = mean_squared_error(target, target)
    assert loss == 0
    assert not mean_squared_error_backward(1, cache).any()


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"target: expected shape \(2, 3\), got \(3, 2\)"):
        mean_squared_error(np.ones((2, 3)), np.ones((3, 2)))
