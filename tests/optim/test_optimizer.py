from copy import deepcopy
from fractions import Fraction

import numpy as np
import pytest
from helpers.witnesses import assert_same_bits

from transformer_core.foundation.chunks import CHUNK
from transformer_core.layers import Linear
from transformer_core.optim import SGD, Adam, AdamW, Muon, clip_by_global_norm
from transformer_core.optim.optimizer import Optimizer, Pieces


class Descent(Optimizer):
    """The least an optimiser can do."""

    def update(self, name, parameter, grad):
        parameter -= self.learning_rate * grad


def refused(optimizer, grads, message, max_norm=None):
    """Check that a step is refused, and that it changed nothing."""
    arrays = optimizer.parameters | optimizer.state()
    before = deepcopy(arrays)
    with pytest.raises(ValueError, match=message):
        optimizer.step(grads, max_norm)
    assert optimizer.steps == 0
    assert_same_bits(arrays, before)


def test_every_parameter_is_updated_in_place():
    a, b = np.array([1.0, 2.0]), np.array(3.0)
    optimizer = Descent({"a": a, "b": b}, 0.5)
    optimizer.step({"b": np.array(2.0), "a": np.array([1.0, -1.0])})
    assert np.array_equal(a, [0.5, 2.5]) and b == 2
    assert optimizer.steps == 1


@pytest.mark.equation("eq:global-norm")
@pytest.mark.parametrize("max_norm", [0.1, 1e6])
def test_a_step_with_a_largest_norm_is_a_step_along_clipped_gradients(rng, max_norm):
    shapes = {"table": (5, CHUNK // 2), "bias": (3,)}  # a table of several chunks
    grads = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    copies = deepcopy(grads)
    one, other = ({n: np.ones(s) for n, s in shapes.items()} for _ in range(2))
    Adam(one, 0.1, eps=1e-3).step(grads, max_norm)
    Adam(other, 0.1, eps=1e-3).step(clip_by_global_norm(grads, max_norm)[0])
    assert_same_bits(one, other)
    assert_same_bits(grads, copies)


@pytest.mark.parametrize(
    "grad, max_norm, message",
    [
        (np.nan, 1.0, "grads: expected a finite norm, got nan from a"),
        (1.0, 0.0, "max_norm: expected a positive number, got 0"),
    ],
)
def test_gradients_that_cannot_be_clipped_update_nothing(grad, max_norm, message):
    refused(Adam({"a": np.ones(2)}), {"a": np.full(2, grad)}, message, max_norm)


@pytest.mark.parametrize(
    "grads, message",
    [
        ({"a": np.ones(2)}, "missing b; unknown none"),
        ({}, "missing a, b; unknown none"),
        ({"a": np.ones(2), "b": np.ones(3), "c": np.ones(1)}, "missing none; unknown c"),
        ({"a": np.ones(2), "B": np.ones(3)}, "missing b; unknown B"),
        ({"a": np.ones(2), "b": np.ones((1, 3))}, r"grads: b: expected shape \(3\), got \(1, 3\)"),
        ({"a": np.ones(2), "b": None}, "grads: b: expected a NumPy array, got NoneType"),
    ],
)
def test_gradients_that_do_not_fit_update_nothing(grads, message):
    refused(Adam({"a": np.ones(2), "b": np.ones(3)}), grads, message)


@pytest.mark.parametrize("large", [2e19, 1e38])
def test_squares_that_overflow_in_the_dtype_update_nothing(large):
    """Adam's second moment would be infinite, and the parameter would never move again."""
    optimizer = Adam({"a": np.ones(2), "b": np.ones(2, np.float32)})
    grads = {"a": np.ones(2), "b": np.array([1, large], np.float32)}
    message = r"grads: expected a norm of at most 1.84e\+19, whose square is finite in float32"
    refused(optimizer, grads, message)
    refused(optimizer, grads, "expected a norm of at most", max_norm=1e25)
    optimizer.step(grads, max_norm=1.0)
    optimizer.step({"a": np.ones(2), "b": np.ones(2, np.float32)})
    assert (optimizer.parameters["b"] < 1).all()


def test_the_largest_gradient_that_is_taken_leaves_finite_averages():
    optimizer = Adam({"a": np.ones(1, np.float32)})
    optimizer.step({"a": np.full(1, 1.8e19, np.float32)})
    assert all(np.isfinite(array).all() for array in optimizer.state().values())
    assert np.isclose(optimizer.parameters["a"], 0.999)


@pytest.mark.parametrize("learning_rate", [0, -1, np.inf, np.nan])
def test_a_bad_learning_rate_between_steps_updates_nothing(learning_rate):
    optimizer = Adam({"a": np.ones(2)})
    optimizer.learning_rate = learning_rate
    message = f"learning_rate: expected a positive number, got {learning_rate}"
    refused(optimizer, {"a": np.ones(2)}, message)


@pytest.mark.parametrize("what", ["a", "first_moment.b"])
def test_an_array_that_cannot_be_written_to_updates_nothing(what):
    optimizer = Adam({"a": np.ones(2), "b": np.ones(3)})
    (optimizer.parameters | optimizer.state())[what].flags.writeable = False
    message = f"parameters: expected arrays that may be written to, got {what}$"
    refused(optimizer, {"a": np.ones(2), "b": np.ones(3)}, message)


def test_an_optimiser_of_arrays_that_the_layer_has_given_up_updates_nothing(rng):
    layer = Linear(2, 3, rng)
    optimizer = SGD(layer.parameters, 0.1)
    grads = {name: np.ones_like(a) for name, a in layer.parameters().items()}
    layer.weight = layer.weight.copy()
    message = "the arrays that the optimiser was made for, got others: weight$"
    refused(optimizer, grads, message)
    layer.weight, layer.bias = optimizer.parameters["weight"], None
    refused(optimizer, grads, "got others: bias$")
    layer.bias = optimizer.parameters["bias"]
    optimizer.step(grads)
    assert np.allclose(layer.bias, -0.1)


@pytest.mark.parametrize("dtype", [int, complex])
def test_parameters_that_are_not_floating_point_are_named(dtype):
    message = "a: expected floating-point numbers, got "
    with pytest.raises(ValueError, match=message):
        Descent({"a": np.ones(1, dtype)}, 0.1)


@pytest.mark.parametrize("learning_rate", [0, -1e-3, float("nan"), float("inf")])
def test_a_bad_learning_rate_is_named(learning_rate):
    message = f"learning_rate: expected a positive number, got {learning_rate}"
    with pytest.raises(ValueError, match=message):
        Descent({"a": np.ones(1)}, learning_rate)


def test_the_norm_is_taken_by_the_map_that_takes_the_step():
    called = []

    def recording(function, *parts):
        called.append(function.__name__)
        return map(function, *parts)

    optimizer = Descent({"a": np.array([1.0])}, 0.5, map=recording)
    optimizer.step({"a": np.array([4.0])}, max_norm=2.0)
    assert optimizer.parameters["a"] == 0
    assert called == ["sum_of_squares", "update"]


def test_the_norm_that_is_given_clips():
    optimizer = Descent({"a": np.array([1.0])}, 0.5, norm=lambda grads: 8.0)
    optimizer.step({"a": np.array([4.0])}, max_norm=2.0)
    assert optimizer.parameters["a"] == 1 - 0.5 * 4 * 2 / 8


def test_pieces_bring_the_norm_and_hear_of_every_step():
    told, arrays = [], {"a": np.array([1.0])}
    pieces = Pieces(arrays, lambda grads: 8.0, lambda: told.append(float(arrays["a"][0])))
    for parameters in (pieces, lambda: pieces):
        Descent(parameters, 0.5).step({"a": np.array([4.0])}, max_norm=2.0)
    assert told == [0.5, 0.0]


@pytest.mark.parametrize(
    "build, name",
    [
        (lambda w: Adam(w, beta2=Fraction(1, 2)), "beta2"),
        (lambda w: Adam(w, Fraction(1, 2)), "learning_rate"),
        (lambda w: AdamW(w, weight_decay=Fraction(1, 2)), "weight_decay"),
        (lambda w: SGD(w, 0.1, momentum=Fraction(1, 2)), "momentum"),
        (lambda w: Muon(w, momentum=Fraction(1, 2)), "momentum"),
    ],
)
def test_a_fraction_is_no_setting_of_floating_point_numbers(build, name):
    message = f"{name}: expected a floating-point number.*Fraction"
    refused(build({"w": np.ones((2, 2))}), {"w": np.eye(2)}, message)


def test_what_does_not_decay_is_a_tuple_of_names():
    with pytest.raises(ValueError, match="undecayed: expected a tuple of names, got 'gamma'"):
        AdamW({"a": np.ones(2)}, undecayed="gamma")


def test_exact_numbers_are_stepped_exactly():
    theta = np.array([Fraction(1, 2)], object)
    SGD({"theta": theta}, Fraction(1, 3), Fraction(1, 2)).step(
        {"theta": np.array([Fraction(3, 4)], object)}
    )
    assert theta[0] == Fraction(1, 4)


def test_a_parameter_that_is_no_array_is_named():
    with pytest.raises(ValueError, match="w: expected a NumPy array, got list"):
        Adam({"w": [1.0]})


def test_the_longest_norm_whose_square_is_finite_is_taken():
    optimizer = Adam({"w": np.ones(1, np.float32)})
    optimizer.check_squares(float(np.finfo(np.float32).max) ** 0.5)
