import numpy as np
import pytest
import sympy
from helpers.witnesses import generators
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.optim import SGD


def draw(rng):
    return {"weight": rng.normal(size=(3, 4)), "bias": rng.normal(size=4)}


def path(gradients, **settings):
    """The steps that one parameter takes, from 0, with the learning rate 1."""
    theta = np.array([sympy.Integer(0)], dtype=object)
    optimizer = SGD({"theta": np.zeros(1)}, 1, **settings)
    velocity = [theta.copy()] if optimizer.averages else []
    positions = [theta[0]]
    for g in gradients:
        optimizer.update("theta", theta, np.array([g], dtype=object), *velocity)
        positions.append(theta[0])
    return [b - a for a, b in zip(positions, positions[1:], strict=False)]


@pytest.mark.equation("eq:sgd")
@pytest.mark.equation("eq:momentum")
@pytest.mark.parametrize("momentum", [0.0, 0.8])
def test_fifty_steps_follow_the_formula(rng, momentum):
    parameters = draw(rng)
    theta = {name: array.copy() for name, array in parameters.items()}
    past = {name: [] for name in theta}
    eta = 0.02
    optimizer = SGD(parameters, eta, momentum)
    for _ in range(50):
        grads = draw(rng)
        optimizer.step(grads)
        for name, g in grads.items():
            past[name].insert(0, g)
            v = sum(momentum**k * old for k, old in enumerate(past[name]))
            theta[name] = theta[name] - eta * v
            assert np.allclose(parameters[name], theta[name], rtol=1e-12, atol=1e-14)
    assert optimizer.steps == 50


def test_the_gradients_of_the_book():
    half = sympy.Rational(1, 2)
    assert path([1, 1, -1]) == [-1, -1, 1]
    assert path([1, 1, -1], momentum=half) == [-1, -3 * half, half / 2]


@pytest.mark.equation("eq:momentum-sum")
def test_momentum_is_a_weighted_sum_exactly():
    mu = sympy.Rational(9, 10)
    gradients = sympy.symbols("g1:6")
    for t, step in enumerate(path(gradients, momentum=mu), start=1):
        expected = sum(mu**k * gradients[t - 1 - k] for k in range(t))
        assert sympy.expand(step + expected) == 0


@pytest.mark.equation("eq:momentum-constant")
@given(st.integers(1, 30))
def test_steady_gradients_add_up_and_alternating_ones_cancel(t):
    mu = sympy.Rational(9, 10)
    steady = path([1] * t, momentum=mu)[-1]
    assert steady == -(1 - mu**t) / (1 - mu)
    alternating = path([(-1) ** s for s in range(1, t + 1)], momentum=mu)[-1]
    assert alternating == -((-1) ** t) * (1 - (-mu) ** t) / (1 + mu)


@pytest.mark.equation("eq:momentum-rate")
@given(generators)
def test_momentum_on_a_quadratic_shrinks_by_the_root_of_mu(rng):
    root = rng.uniform(0.3, 0.9)
    eta = rng.uniform(0.1, 2)
    # Curvatures within the bounds of the theorem, not at them.
    share = rng.uniform(0.05, 0.95)
    curvature = ((1 - root) ** 2 + share * 4 * root) / eta
    step = np.array([[1 + root**2 - eta * curvature, -(root**2)], [1, 0]])
    assert np.allclose(np.abs(np.linalg.eigvals(step)), root, rtol=1e-9)


@pytest.mark.parametrize("momentum", [1, -0.1, float("nan")])
def test_a_bad_momentum_is_named(rng, momentum):
    message = rf"momentum: expected a number in \[0, 1\), got {momentum}"
    with pytest.raises(ValueError, match=message):
        SGD(draw(rng), 0.1, momentum)
