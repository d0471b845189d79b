from copy import deepcopy

import numpy as np
import pytest
import sympy
from helpers.witnesses import assert_same_bits, randomise

from transformer_core.layers import LayerSpec
from transformer_core.models import Encoder
from transformer_core.optim import Adam, AdamW


def draw(rng):
    return {
        "linear.weight": rng.normal(size=(3, 4)),
        "linear.bias": rng.normal(size=4),
        "norm.gamma": rng.normal(size=4),
        "norm.beta": rng.normal(size=4),
        "table": rng.normal(size=(5, 4)),
    }


DECAYED = {"linear.weight", "table"}


@pytest.mark.equation("eq:adamw")
@pytest.mark.parametrize("undecayed", [None, ()])
def test_fifty_steps_follow_the_formula(rng, undecayed):
    parameters = draw(rng)
    theta = deepcopy(parameters)
    past = {name: [] for name in theta}
    eta, beta1, beta2, eps, decay = 0.02, 0.8, 0.95, 1e-3, 0.3
    options = {} if undecayed is None else {"undecayed": undecayed}
    optimizer = AdamW(parameters, eta, beta1, beta2, eps, decay, **options)
    for t in range(1, 51):
        grads = draw(rng)
        optimizer.step(grads)
        for name, g in grads.items():
            past[name].insert(0, g)
            m = sum((1 - beta1) * beta1**k * old for k, old in enumerate(past[name]))
            v = sum((1 - beta2) * beta2**k * old**2 for k, old in enumerate(past[name]))
            m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
            shrink = decay if name in DECAYED or undecayed == () else 0
            direction = m_hat / (np.sqrt(v_hat) + eps) + shrink * theta[name]
            theta[name] = theta[name] - eta * direction
            assert np.allclose(parameters[name], theta[name], rtol=1e-12, atol=1e-14)


def test_without_decay_it_is_adam_bit_by_bit(rng):
    parameters = draw(rng)
    twin = deepcopy(parameters)
    adamw, adam = AdamW(parameters, weight_decay=0), Adam(twin)
    for _ in range(5):
        grads = draw(rng)
        adamw.step(grads)
        adam.step(grads)
    assert_same_bits(parameters, twin)


@pytest.mark.equation("eq:adamw-decay")
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_decay_does_not_depend_on_the_gradient(rng, scale):
    """Gradients enter the step, and nothing but the step."""
    first, second = {"w": np.array([3.0, -2.0])}, {"w": np.array([3.0, -2.0])}
    decayed, plain = AdamW(first, 0.01, weight_decay=0.5), Adam(second, 0.01)
    for t in range(1, 21):
        before = deepcopy(first)["w"] * (1 - 0.01 * 0.5) - first["w"]
        grads = {"w": scale * rng.normal(size=2)}
        start = [first["w"].copy(), second["w"].copy()]
        decayed.step(grads)
        plain.step(grads)
        moved = first["w"] - start[0], second["w"] - start[1]
        assert np.allclose(moved[0] - moved[1], before, rtol=1e-9, atol=1e-15), t


@pytest.mark.equation("eq:adamw-decay")
def test_a_weight_without_gradient_shrinks_geometrically_and_exactly():
    eta, decay = sympy.Rational(1, 10), sympy.Rational(1, 5)
    theta = np.array([1.0])
    optimizer = AdamW({"w": theta}, float(eta), weight_decay=float(decay))
    for _ in range(7):
        optimizer.step({"w": np.zeros(1)})
    assert np.isclose(theta[0], float((1 - eta * decay) ** 7), rtol=1e-14)


def test_biases_gamma_and_beta_of_a_model_are_left_alone(rng):
    spec = LayerSpec(4, 2, 8, "pre", dtype=np.float64)
    parameters = randomise(Encoder(spec, 1, rng, final_norm=True), rng).parameters()
    before = deepcopy(parameters)
    AdamW(parameters).step({n: np.zeros_like(a) for n, a in parameters.items()})
    still = {n for n in parameters if np.array_equal(parameters[n], before[n])}
    assert still == {n for n in parameters if not n.endswith(".weight")}
    assert still and still != parameters.keys()


def test_only_the_last_part_of_a_name_decides():
    parameters = {"bias.weight": np.ones(1), "beta": np.ones(1), "my_bias": np.ones(1)}
    AdamW(parameters).step({name: np.zeros(1) for name in parameters})
    assert parameters["beta"] == 1
    assert parameters["bias.weight"] < 1 and parameters["my_bias"] < 1


def test_the_decay_follows_the_learning_rate():
    theta = np.array([1.0])
    optimizer = AdamW({"w": theta}, 0.1, weight_decay=0.5)
    optimizer.learning_rate = 0.2
    optimizer.step({"w": np.zeros(1)})
    assert np.isclose(theta[0], 0.9, rtol=1e-15)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"weight_decay": -0.1}, "weight_decay: expected a number of at least 0, got -0.1"),
        ({"weight_decay": np.nan}, "weight_decay: expected .* got nan"),
        ({"weight_decay": np.inf}, "weight_decay: expected .* got inf"),
        ({"beta1": 1}, "beta1: expected"),
    ],
)
def test_bad_settings_are_named(rng, settings, message):
    with pytest.raises(ValueError, match=message):
        AdamW(draw(rng), **settings)


def test_the_decay_is_a_hundredth_unless_told_otherwise():
    parameters = {"weight": np.array([1.0])}
    AdamW(parameters, learning_rate=0.5).step({"weight": np.array([0.0])})
    assert np.allclose(parameters["weight"], 1 - 0.5 * 0.01, rtol=1e-12)
