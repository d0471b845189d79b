from itertools import repeat

import numpy as np
import pytest

from transformer_core.optim import SGD, Adam
from transformer_core.training import train


class Quadratic:
    """The loss (x - target)^2, whose minimum is at the target."""

    def __init__(self):
        self.x = np.array([5.0, -3.0])
        self.optimizer = Adam({"x": self.x}, 0.1)
        self.calls = 0

    def loss_and_gradients(self, target):
        self.calls += 1
        error = self.x - target
        return (error * error).sum(), {"x": 2 * error}

    def train(self, batches, steps, **options):
        return train(self.loss_and_gradients, self.optimizer, batches, steps, **options)


@pytest.fixture
def quadratic():
    return Quadratic()


TARGET = np.array([1.0, 2.0])
BATCHES = [(TARGET,)]


def test_a_quadratic_is_minimised(quadratic):
    history = quadratic.train(repeat((TARGET,)), 500)
    assert np.allclose(quadratic.x, TARGET, atol=1e-3)
    assert history[0]["loss"] == 16 + 25
    assert history[-1]["loss"] < 1e-6


def test_the_history_has_a_record_for_each_step(quadratic):
    history = quadratic.train(BATCHES * 3, 3)
    assert [record["step"] for record in history] == [1, 2, 3]
    assert all(type(record["loss"]) is float for record in history)
    assert history[2]["loss"] < history[1]["loss"] < history[0]["loss"]


def test_the_batches_are_used_in_order(quadratic):
    batches = [(TARGET,), (TARGET + 100,)]
    first, second = quadratic.train(batches, 2)
    assert first["loss"] < 50 < second["loss"]


def test_gradients_are_clipped_on_request(quadratic):
    quadratic.optimizer = SGD({"x": quadratic.x}, 1.0)
    quadratic.train(BATCHES, 1, max_norm=2.0)
    error = np.array([4.0, -5.0])
    assert np.allclose(
        quadratic.x, [5, -3] - 2 * error / np.linalg.norm(error), rtol=1e-14
    )


def test_after_step_sees_each_record_and_may_add_to_it(quadratic):
    def after_step(history):
        history[-1]["seen"] = len(history)

    history = quadratic.train(BATCHES * 3, 3, after_step=after_step)
    assert [record["seen"] for record in history] == [1, 2, 3]


def test_the_schedule_sets_the_rate_of_each_step(quadratic):
    rates = []
    quadratic.train(
        BATCHES * 3,
        3,
        schedule=lambda step: step / 100,
        after_step=lambda _: rates.append(quadratic.optimizer.learning_rate),
    )
    assert rates == [0.01, 0.02, 0.03]


def test_training_goes_on_from_a_history(quadratic):
    whole = Quadratic()
    expected = whole.train(BATCHES * 5, 5)
    history = quadratic.train(BATCHES * 2, 2)
    resumed = quadratic.train(BATCHES * 3, 5, history=history)
    assert resumed is history
    assert resumed == expected
    assert np.array_equal(quadratic.x, whole.x)


def test_a_history_that_is_long_enough_is_left_alone(quadratic):
    history = [{"step": 1, "loss": 2.0}]
    assert quadratic.train([], 1, history=history) == [{"step": 1, "loss": 2.0}]
    assert quadratic.calls == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_loss_that_is_not_finite_ends_training_before_the_step(quadratic, bad):
    twin = Quadratic()
    twin.train(BATCHES * 2, 2)
    history = []

    def loss_and_gradients(target):
        loss, grads = quadratic.loss_and_gradients(target)
        return (bad if quadratic.calls == 3 else loss), grads

    message = f"loss at step 3: expected a finite number, got {bad}"
    with pytest.raises(ValueError, match=message):
        train(
            loss_and_gradients,
            quadratic.optimizer,
            repeat((TARGET,)),
            9,
            history=history,
        )
    assert [record["step"] for record in history] == [1, 2]
    assert np.array_equal(quadratic.x, twin.x)
    assert quadratic.optimizer.steps == 2


def test_batches_that_run_out_are_named(quadratic):
    history = []
    with pytest.raises(ValueError, match="batches: expected 5, got 2"):
        quadratic.train(BATCHES * 2, 5, history=history)
    with pytest.raises(ValueError, match="batches: expected 3, got 1"):
        quadratic.train(BATCHES, 5, history=history)
    assert len(history) == 3


def test_gradients_that_do_not_fit_are_named(quadratic):
    with pytest.raises(ValueError, match="unknown y"):
        train(lambda: (1.0, {"y": TARGET}), quadratic.optimizer, repeat(()), 1)
