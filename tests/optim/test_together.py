import numpy as np
import pytest

from transformer_core.optim import SGD, AdamW, Muon, Together, clip_by_global_norm

SHAPES = {"a.weight": (4, 3), "b.weight": (3, 5), "b.bias": (5,)}


def draw(rng, scale=1.0):
    return {name: scale * rng.normal(size=shape) for name, shape in SHAPES.items()}


def parts_of(parameters):
    matrices = {n: a for n, a in parameters.items() if a.ndim == 2}
    rest = {n: a for n, a in parameters.items() if a.ndim == 1}
    return AdamW(rest, 0.01), Muon(matrices, 0.05)


@pytest.mark.parametrize("max_norm", [None, 0.1])
def test_each_part_steps_as_it_would_alone_with_gradients_clipped_together(rng, max_norm):
    together = draw(rng)
    alone = {name: array.copy() for name, array in together.items()}
    one, others = Together(together, *parts_of(together)), parts_of(alone)
    for step in range(1, 4):
        grads = draw(rng)
        one.learning_rate = 0.01 / step
        one.step(grads, max_norm)
        clipped = clip_by_global_norm(grads, max_norm)[0] if max_norm else grads
        for other, rate in zip(others, (0.01, 0.05), strict=True):
            other.learning_rate = rate / step
            other.step({name: clipped[name] for name in other.parameters})
    for name, array in alone.items():
        np.testing.assert_allclose(together[name], array, rtol=1e-12)


def test_its_state_is_that_of_its_parts_and_live(rng):
    parameters = draw(rng)
    optimizer = Together(parameters, *parts_of(parameters))
    assert optimizer.state().keys() == {
        "first_moment.b.bias",
        "second_moment.b.bias",
        "momentum.a.weight",
        "momentum.b.weight",
    }
    before = optimizer.state()
    optimizer.step(draw(rng))
    assert optimizer.steps == 1 and all(array.all() for array in before.values())


def test_parameters_without_an_optimiser_or_with_two_are_named(rng):
    parameters = draw(rng)
    adamw, muon = parts_of(parameters)
    with pytest.raises(ValueError, match="parts: .*b.bias"):
        Together(parameters, muon)
    with pytest.raises(ValueError, match="expected each parameter in one, got b.bias in two"):
        Together(parameters, adamw, muon, SGD({"b.bias": parameters["b.bias"]}, 0.1))
    with pytest.raises(ValueError, match="parts: expected at least one optimiser, got none"):
        Together(parameters)
    with pytest.raises(ValueError, match="parts: expected one of the class Optimizer, got dict"):
        Together(parameters, parameters)
