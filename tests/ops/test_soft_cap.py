import numpy as np
import pytest
import sympy
from helpers.cases import OPS
from helpers.exact import assert_exact, symbols
from helpers.witnesses import generators, sizes
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.ops import soft_cap, soft_cap_backward
from transformer_core.ops.soft_cap import SoftCapCache

caps = st.floats(0.1, 100)


@pytest.mark.equation("eq:soft-cap-backward")
def test_gradient_agrees_with_the_witnesses(check):
    check.op(OPS["soft_cap"])


@pytest.mark.equation("eq:soft-cap-backward")
def test_gradient_is_exact():
    x, dy, cap = symbols("x", 2), symbols("d", 2), sympy.symbols("c", positive=True)
    tanh = np.vectorize(sympy.tanh)(x / cap)
    assert_exact((cap * tanh * dy).sum(), [x], [soft_cap_backward(dy, SoftCapCache(tanh))])


@pytest.mark.equation("eq:soft-cap")
@given(generators, sizes, sizes, caps)
def test_values_stay_below_the_cap_and_in_order(rng, rows, columns, cap):
    x = rng.normal(0, 3 * cap, (rows, columns))
    y, _ = soft_cap(x, cap)
    assert np.allclose(y, cap * np.tanh(x / cap), rtol=1e-15)
    assert (np.abs(y) <= cap).all() and (np.abs(y) <= np.abs(x)).all()
    assert (np.diff(y.ravel()[np.argsort(x, axis=None)]) >= 0).all()


@given(generators, caps)
def test_small_numbers_pass(rng, cap):
    x = 1e-3 * cap * rng.uniform(-1, 1, 5)
    y, cache = soft_cap(x, cap)
    assert np.allclose(y, x, rtol=1e-6)
    assert np.allclose(soft_cap_backward(np.ones(5), cache), 1, rtol=1e-5)
