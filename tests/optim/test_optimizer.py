import numpy as np
import pytest

from transformer_core.foundation.chunks import CHUNK
from transformer_core.optim import Adam, clip_by_global_norm
from transformer_core.optim.optimizer import Optimizer


class Descent(Optimizer):
    """The least an optimiser can do."""

    def update(self, name, parameter, grad):
        parameter -= self.learning_rate * grad


def test_every_parameter_is_updated_in_place():
    a, b = np.array([1.0, 2.0]), np.array(3.0)
    optimizer = Descent({"a": a, "b": b}, 0.5)
    optimizer.step({"b": np.array(2.0), "a": np.array([1.0, -1.0])})
    assert np.array_equal(a, [0.5, 2.5]) and b == 2
    assert optimizer.steps == 1


def test_the_learning_rate_may_change_between_steps():
    a = np.array([1.0])
    optimizer = Descent({"a": a}, 0.5)
    optimizer.learning_rate = 0.25
    optimizer.step({"a": np.array([1.0])})
    assert a == 0.75


@pytest.mark.equation("eq:global-norm")
@pytest.mark.parametrize("max_norm", [0.1, 1e6])
def test_a_step_with_a_largest_norm_is_a_step_along_clipped_gradients(rng, max_norm):
    shapes = {"table": (5, CHUNK // 2), "bias": (3,)}  # a table of several chunks
    grads = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    copies = {name: grad.copy() for name, grad in grads.items()}
    one, other = ({n: np.ones(s) for n, s in shapes.items()} for _ in range(2))
    Adam(one, 0.1, eps=1e-3).step(grads, max_norm)
    Adam(other, 0.1, eps=1e-3).step(clip_by_global_norm(grads, max_norm)[0])
    for name, grad in grads.items():
        assert np.array_equal(one[name], other[name])
        assert np.array_equal(grad, copies[name])


@pytest.mark.parametrize(
    "grad, max_norm, message",
    [
        (np.nan, 1.0, "grads: expected a finite norm, got nan from a"),
        (1.0, 0.0, "max_norm: expected a positive number, got 0"),
    ],
)
def test_gradients_that_cannot_be_clipped_update_nothing(grad, max_norm, message):
    parameters = {"a": np.ones(2)}
    optimizer = Adam(parameters)
    with pytest.raises(ValueError, match=message):
        optimizer.step({"a": np.full(2, grad)}, max_norm)
    assert optimizer.steps == 0 and not optimizer.state()["first_moment.a"].any()
    assert (parameters["a"] == 1).all()


@pytest.mark.parametrize(
    "grads, message",
    [
        ({"a": np.ones(2)}, "missing b; unknown none"),
        ({}, "missing a, b; unknown none"),
        (
            {"a": np.ones(2), "b": np.ones(3), "c": np.ones(1)},
            "missing none; unknown c",
        ),
        (
            {"a": np.ones(2), "B": np.ones(3)},
            "missing b; unknown B",
        ),
        (
            {"a": np.ones(2), "b": np.ones((1, 3))},
            r"grads: b: expected shape \(3\), got \(1, 3\)",
        ),
        (
            {"a": np.ones(2), "b": None},
            "grads: b: expected a NumPy array, got NoneType",
        ),
    ],
)
def test_gradients_that_do_not_fit_update_nothing(grads, message):
    parameters = {"a": np.ones(2), "b": np.ones(3)}
    optimizer = Adam(parameters)
    with pytest.raises(ValueError, match=message):
        optimizer.step(grads)
    assert all((array == 1).all() for array in parameters.values())
    assert not any(array.any() for array in optimizer.state().values())
    assert optimizer.steps == 0


@pytest.mark.parametrize("learning_rate", [0, -1e-3, float("nan")])
def test_a_bad_learning_rate_is_named(learning_rate):
    message = f"learning_rate: expected a positive number, got {learning_rate}"
    with pytest.raises(ValueError, match=message):
        Descent({"a": np.ones(1)}, learning_rate)


def test_the_norm_is_taken_by_the_map_that_takes_the_step():
    optimizer, called = Descent({"a": np.array([1.0])}, 0.5), []

    def recording(function, *parts):
        called.append(function.__name__)
        return map(function, *parts)

    optimizer.map = recording
    optimizer.step({"a": np.array([4.0])}, max_norm=2.0)
    assert optimizer.parameters["a"] == 0
    assert called == ["sum_of_squares", "update"]
