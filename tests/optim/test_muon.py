from copy import deepcopy

import numpy as np
import pytest
from helpers.witnesses import assert_same_bits, generators
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.foundation import chunks
from transformer_core.optim import Muon, orthogonalize
from transformer_core.optim.muon import CUBIC, QUINTIC

shapes = st.tuples(st.integers(1, 7), st.integers(1, 7))


def draw(rng):
    shapes = {"tall": (6, 3), "wide": (3, 5), "square": (4, 4)}
    return {name: rng.normal(size=s) for name, s in shapes.items()}


def polar(matrix):
    """U V^T, by the singular value decomposition."""
    u, _, vt = np.linalg.svd(matrix, full_matrices=False)
    return u @ vt


def spectral(matrix):
    return np.linalg.norm(matrix, 2)


# The steepest direction


@pytest.mark.equation("eq:spectral-descent")
@given(generators, shapes)
def test_no_direction_of_the_unit_ball_is_steeper(rng, shape):
    g = rng.normal(size=shape)
    steepest = (g * polar(g)).sum()
    assert np.isclose(steepest, np.linalg.norm(g, "nuc"), rtol=1e-12)
    assert np.isclose(spectral(polar(g)), 1, rtol=1e-12)
    for _ in range(20):
        other = rng.normal(size=shape)
        assert (g * other).sum() / spectral(other) <= steepest * (1 + 1e-12)


@pytest.mark.equation("eq:steepest")
@given(generators, shapes, st.floats(0.1, 10))
def test_the_step_minimises_the_model(rng, shape, curvature):
    g = rng.normal(size=shape)

    def model(step):
        return (g * step).sum() + spectral(step) ** 2 / (2 * curvature)

    nuclear = np.linalg.norm(g, "nuc")
    best = -curvature * nuclear * polar(g)
    assert np.isclose(model(best), -curvature * nuclear**2 / 2, rtol=1e-12)
    for _ in range(20):
        near = best + rng.normal(size=shape) * 10 ** rng.uniform(-3, 1)
        assert model(near) >= model(best) * (1 - 1e-12) - 1e-12 * nuclear**2


# Newton and Schulz


@pytest.mark.equation("eq:newton-schulz")
@pytest.mark.parametrize("coefficients", [CUBIC, QUINTIC])
@given(generators, shapes, st.integers(1, 6))
def test_singular_values_follow_the_polynomial(coefficients, rng, shape, iterations):
    matrix = rng.normal(size=shape)
    u, x, vt = np.linalg.svd(matrix / np.linalg.norm(matrix), full_matrices=False)
    a, b, c = coefficients
    for _ in range(iterations):
        x = a * x + b * x**3 + c * x**5
    found = orthogonalize(matrix, iterations, coefficients)
    assert np.allclose(found, (u * x) @ vt, rtol=0, atol=1e-12)


@pytest.mark.equation("eq:newton-schulz-cubic")
def test_the_cubic_iteration_converges(rng):
    for matrix in draw(rng).values():
        found = orthogonalize(matrix, 40, CUBIC)
        assert np.allclose(found, polar(matrix), rtol=0, atol=1e-12)


def test_five_steps_of_the_quintic_come_near():
    x = np.logspace(-2, 0, 100_001)
    a, b, c = QUINTIC
    for _ in range(5):
        x = a * x + b * x**3 + c * x**5
    assert 0.68 < x.min() and x.max() < 1.21


@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1e200])
def test_the_size_of_the_matrix_does_not_matter(rng, scale):
    for matrix in draw(rng).values():
        found = orthogonalize(scale * matrix)
        assert np.allclose(found, orthogonalize(matrix), rtol=0, atol=1e-12)


def test_zeros_stay_zeros():
    zeros = np.zeros((2, 3), np.float32)
    found = orthogonalize(zeros)
    assert np.array_equal(found, zeros) and found.dtype == zeros.dtype


# The optimiser


@pytest.mark.equation("eq:muon", "eq:muon-scales")
@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("convention", ["original", "match_rms_adamw"])
def test_twenty_steps_follow_the_formula(rng, nesterov, convention):
    parameters = draw(rng)
    theta = deepcopy(parameters)
    past = {name: [] for name in theta}
    eta, mu, decay = 0.02, 0.8, 0.3
    optimizer = Muon(parameters, eta, mu, nesterov, 3, decay, convention)
    for _ in range(20):
        grads = draw(rng)
        optimizer.step(grads)
        for name, g in grads.items():
            past[name].insert(0, g)
            b = sum(mu**k * old for k, old in enumerate(past[name]))
            x = g + mu * b if nesterov else b
            u, x, vt = np.linalg.svd(x / np.linalg.norm(x), full_matrices=False)
            for _ in range(3):
                x = 3.4445 * x - 4.775 * x**3 + 2.0315 * x**5
            width_in, width_out = g.shape
            scale = np.sqrt(width_out / width_in) if width_out > width_in else 1
            if convention == "match_rms_adamw":
                scale = 0.2 * np.sqrt(max(g.shape))
            theta[name] = (1 - eta * decay) * theta[name] - eta * scale * (u * x) @ vt
            assert np.allclose(parameters[name], theta[name], rtol=0, atol=1e-11)
    assert optimizer.steps == 20


@pytest.mark.equation("eq:muon-scales")
def test_the_root_mean_square_of_a_step_is_that_of_its_singular_values(rng):
    """Times sqrt(max(D_in, D_out)): 1 for an orthogonal matrix of any shape."""
    for shape in (3, 40), (40, 3), (9, 9):
        x = orthogonalize(rng.normal(size=shape), 60, CUBIC)
        assert np.isclose(np.sqrt(max(shape) * np.mean(x**2)), 1)
        step = {"weight": np.zeros(shape)}
        Muon(step, 0.3, iterations=5, scale="match_rms_adamw").step({"weight": x})
        values = np.linalg.svd(orthogonalize(x), compute_uv=False)
        expected = 0.2 * 0.3 * np.sqrt(np.mean(values**2))
        assert np.isclose(np.sqrt(np.mean(step["weight"] ** 2)), expected)


def test_a_large_matrix_is_not_cut(rng, monkeypatch):
    grads = [draw(rng) for _ in range(3)]
    found = []
    for size in (chunks.CHUNK, 5):
        monkeypatch.setattr(chunks, "CHUNK", size)
        parameters = {name: np.zeros_like(g) for name, g in grads[0].items()}
        optimizer = Muon(parameters)
        for grad in grads:
            optimizer.step(grad)
        found.append(parameters)
    whole, cut = found
    assert all(np.allclose(whole[n], cut[n], rtol=0, atol=1e-14) for n in whole)


def test_clipping_is_by_the_norm_of_the_optimiser(rng):
    """Which is another one where other stages of a pipeline have gradients, too."""
    first = draw(rng)
    second = deepcopy(first)
    one, other = Muon(first, norm=lambda grads: 4.0), Muon(second)
    for grad in (draw(rng), draw(rng)):
        one.step(grad, max_norm=0.5)
        other.step({name: array / 8 for name, array in grad.items()})
    assert_same_bits(first, second)


def test_the_settings_are_those_of_the_paper_unless_told_otherwise(rng):
    first = draw(rng)
    second = deepcopy(first)
    for matrix in first.values():
        assert np.array_equal(orthogonalize(matrix), orthogonalize(matrix, 5, QUINTIC))
    one, other = Muon(first), Muon(second, 0.02, 0.95, True, 5, 0.0, "original")
    for grad in (draw(rng), draw(rng)):
        one.step(grad)
        other.step(grad)
    assert_same_bits(first, second)


@pytest.mark.parametrize(
    ("shape", "settings", "message"),
    [
        ((3,), {}, r"weight: expected shape \(D_in, D_out\), got \(3,\)"),
        ((2, 3, 4), {}, r"weight: expected shape \(D_in, D_out\), got \(2, 3, 4\)"),
        ((2, 3), {"momentum": 1.0}, r"momentum: expected a number in \[0, 1\), got 1"),
        ((2, 3), {"iterations": 0}, "iterations: expected a whole number of at least"),
        ((2, 3), {"weight_decay": -1}, "weight_decay: expected a number of at least 0"),
        ((2, 3), {"scale": "rms"}, "scale: expected one of original, match_rms_adamw, got 'rms'"),
        ((2, 3), {"learning_rate": 0}, "learning_rate: expected a positive number"),
    ],
)
def test_bad_settings_are_named(shape, settings, message):
    with pytest.raises(ValueError, match=message):
        Muon({"weight": np.ones(shape)}, **settings)


def test_what_is_no_matrix_is_not_orthogonalised():
    with pytest.raises(ValueError, match=r"matrix: expected shape \(rows, columns\)"):
        orthogonalize(np.ones(3))
    with pytest.raises(ValueError, match="matrix: expected floating-point numbers"):
        orthogonalize(np.ones((2, 3), int))
