import numpy as np
import pytest
import sympy
from helpers.witnesses import generators
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.optim import Adam


def draw(rng):
    return {"weight": rng.normal(size=(3, 4)), "bias": rng.normal(size=4)}


@pytest.mark.equation("eq:adam")
def test_fifty_steps_follow_the_formula(rng):
    parameters = draw(rng)
    theta = {name: array.copy() for name, array in parameters.items()}
    m = {name: 0.0 for name in theta}
    v = {name: 0.0 for name in theta}
    eta, beta1, beta2, eps = 0.02, 0.8, 0.95, 1e-3
    optimizer = Adam(parameters, eta, beta1, beta2, eps)
    for t in range(1, 51):
        grads = draw(rng)
        optimizer.step(grads)
        for name, g in grads.items():
            m[name] = beta1 * m[name] + (1 - beta1) * g
            v[name] = beta2 * v[name] + (1 - beta2) * g**2
            corrected = np.sqrt(v[name] / (1 - beta2**t)) + eps
            theta[name] = theta[name] - eta * m[name] / (1 - beta1**t) / corrected
            assert np.allclose(parameters[name], theta[name], rtol=1e-12, atol=0)
    assert optimizer.steps == 50


@pytest.mark.slow
@pytest.mark.equation("eq:adam")
def test_bias_correction_is_exact_for_a_constant_gradient(symbolic):
    g, eta, eps, beta2 = sympy.symbols("g eta epsilon beta2", positive=True)
    beta1 = sympy.Rational(9, 10)
    theta, m, v = (np.array([sympy.Integer(0)], dtype=object) for _ in range(3))
    optimizer = Adam({"theta": np.zeros(1)})
    optimizer.learning_rate, optimizer.eps = eta, eps
    optimizer.beta1, optimizer.beta2 = beta1, beta2
    for t in range(1, 7):
        optimizer.steps = t
        optimizer.update("theta", theta, np.array([g], dtype=object), m, v)
        m_hat, v_hat = m[0] / (1 - beta1**t), v[0] / (1 - beta2**t)
        assert sympy.expand(m_hat - g) == sympy.simplify(v_hat - g**2) == 0
        exact = sympy.nsimplify(theta[0], rational=True)  # roots for powers of 0.5
        exact = exact.subs(beta2, sympy.Rational(999, 1000))
        assert sympy.simplify(exact + t * eta * g / (g + eps)) == 0


def test_the_first_step_has_the_size_of_the_learning_rate(rng):
    parameters, grads = draw(rng), draw(rng)
    before = {name: array.copy() for name, array in parameters.items()}
    Adam(parameters, 0.01, eps=1e-12).step(grads)
    for name, grad in grads.items():
        step = parameters[name] - before[name]
        assert np.allclose(step, -0.01 * np.sign(grad), rtol=1e-9)


@pytest.mark.equation("eq:adam-moments")
@pytest.mark.equation("eq:bias-correction")
def test_moments_are_weighted_sums_whose_corrected_weights_sum_to_one():
    beta1, beta2 = sympy.Rational(9, 10), sympy.Rational(999, 1000)
    m, v, gradients = sympy.Integer(0), sympy.Integer(0), sympy.symbols("g1:6")
    for t, g in enumerate(gradients, start=1):
        m += (1 - beta1) * (g - m)
        v += (1 - beta2) * (g * g - v)
        m_weights = [(1 - beta1) * beta1 ** (t - s) for s in range(1, t + 1)]
        v_weights = [(1 - beta2) * beta2 ** (t - s) for s in range(1, t + 1)]
        pairs = list(zip(m_weights, v_weights, gradients, strict=False))
        assert sympy.expand(m - sum(w * g for w, _, g in pairs)) == 0
        assert sympy.expand(v - sum(w * g**2 for _, w, g in pairs)) == 0
        assert sum(m_weights) == 1 - beta1**t and sum(v_weights) == 1 - beta2**t


def bound(t, beta1=0.9, beta2=0.999):
    rho = beta1**2 / beta2
    geometric = np.sqrt((1 - rho**t) / (1 - rho))
    correction = np.sqrt(1 - beta2**t) / (1 - beta1**t)
    return (1 - beta1) / np.sqrt(1 - beta2) * geometric * correction


@pytest.mark.equation("eq:adam-bound")
@given(generators, st.floats(0.5, 2), st.floats(0, 4))
def test_no_step_is_longer_than_the_bound(rng, growth, noise):
    theta = np.zeros(8)
    optimizer = Adam({"theta": theta}, 1.0, eps=1e-300)
    for t in range(1, 61):
        before = theta.copy()
        g = growth**t * (1 + noise * rng.normal(size=8))
        optimizer.step({"theta": g})
        assert (np.abs(theta - before) <= bound(t) * (1 + 1e-9)).all()


@pytest.mark.equation("eq:adam-bound")
def test_gradients_that_grow_just_so_reach_the_bound():
    theta = np.zeros(1)
    optimizer = Adam({"theta": theta}, 1.0, eps=1e-300)
    for t in range(1, 61):
        before = theta.copy()
        optimizer.step({"theta": np.array([(0.999 / 0.9) ** t])})
        assert np.isclose(before[0] - theta[0], bound(t), rtol=1e-9)


def test_the_unit_of_the_loss_does_not_matter(rng):
    first = draw(rng)
    second = {name: array.copy() for name, array in first.items()}
    one, other = Adam(first, 0.01, eps=1e-8), Adam(second, 0.01, eps=1e-5)
    for _ in range(20):
        grads = draw(rng)
        one.step(grads)
        other.step({name: 1000 * grad for name, grad in grads.items()})
    assert all(np.allclose(first[name], second[name], rtol=1e-11) for name in first)


def test_an_eps_that_vanishes_in_the_dtype_is_named():
    """0 / (0 + eps) of a zero gradient would not be a number."""
    theta = np.ones(2, np.float16)
    message = "eps: expected a number that is not 0 in float16, the dtype of w, got 1e-08"
    with pytest.raises(ValueError, match=message):
        Adam({"w": theta})
    Adam({"w": theta}, eps=1e-4).step({"w": np.zeros(2, np.float16)})
    assert (theta == 1).all()


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"beta1": 1}, r"beta1: expected a number in \[0, 1\), got 1"),
        ({"beta2": -0.1}, r"beta2: expected a number in \[0, 1\), got -0.1"),
        ({"beta2": np.nan}, "beta2: expected .* got nan"),
        ({"eps": 0}, "eps: expected a positive number, got 0"),
        ({"eps": np.inf}, "eps: expected a positive number, got inf"),
        ({"learning_rate": 0}, "learning_rate: expected a positive number, got 0"),
    ],
)
def test_bad_settings_are_named(rng, settings, message):
    with pytest.raises(ValueError, match=message):
        Adam(draw(rng), **settings)


def test_the_defaults_are_those_of_the_paper():
    one, other = {"a": np.ones(3)}, {"a": np.ones(3)}
    default, told = Adam(one), Adam(other, 1e-3, 0.9, 0.999, 1e-8)
    for grad in (np.array([1e-7, 2.0, 0.0]), np.array([3e-8, -1.0, 1.0])):
        default.step({"a": grad})
        told.step({"a": grad})
    assert np.array_equal(one["a"], other["a"])


def test_without_averages_a_step_is_the_gradient_over_its_size():
    parameters = {"a": np.array([1.0, 2.0])}
    Adam(parameters, 0.5, beta1=0, beta2=0, eps=1.0).step({"a": np.array([3.0, -1.0])})
    assert np.allclose(parameters["a"], [1 - 0.5 * 3 / 4, 2 + 0.5 / 2])
