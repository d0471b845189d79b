import sys
from itertools import repeat

import numpy as np
import pytest
from helpers.blas import blas_threads
from threadpoolctl import threadpool_limits

from transformer_core.distributed import DataParallel
from transformer_core.layers import LayerSpec
from transformer_core.optim import SGD, Adam
from transformer_core.tasks.reconstruction import Reconstructor
from transformer_core.training import train


class Quadratic:
    """The loss (x - target)^2, whose minimum is at the target."""

    def __init__(self):
        self.x = np.array([5.0, -3.0])
        self.optimizer = Adam({"x": self.x}, 0.1)
        self.calls = 0

    def loss_and_gradients(self, target, rng):
        self.calls += 1
        error = self.x - target
        return (error * error).sum(), {"x": 2 * error}

    def train(self, batches, steps, **options):
        return train(self.loss_and_gradients, self.optimizer, batches, steps, **options)

    def assert_two_steps_taken(self, **options):
        """Each batch has been the target, and a third step has changed nothing."""
        twin = Quadratic()
        twin.train(BATCHES * 2, 2, **options)
        assert np.array_equal(self.x, twin.x)
        assert self.optimizer.steps == 2


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
    assert np.allclose(quadratic.x, [5, -3] - 2 * error / np.linalg.norm(error), rtol=1e-14)


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
    history = []

    def loss_and_gradients(target, rng):
        loss, grads = quadratic.loss_and_gradients(target, rng)
        return (bad if quadratic.calls == 3 else loss), grads

    message = f"step 3: loss: expected a finite number, got {bad}"
    with pytest.raises(ValueError, match=message):
        train(loss_and_gradients, quadratic.optimizer, repeat((TARGET,)), 9, history=history)
    assert [record["step"] for record in history] == [1, 2]
    quadratic.assert_two_steps_taken()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_learning_rate_that_is_not_finite_ends_training_before_the_step(quadratic, bad):
    rates = {1: 0.1, 2: 0.1, 3: bad}
    message = f"step 3: learning_rate: expected a positive number, got {bad}"
    with pytest.raises(ValueError, match=message):
        quadratic.train(repeat((TARGET,)), 9, schedule=rates.get)
    quadratic.assert_two_steps_taken()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_gradients_that_the_optimizer_refuses_name_the_step(quadratic, bad):
    def loss_and_gradients(target, rng):
        loss, grads = quadratic.loss_and_gradients(target, rng)
        return loss, {"x": grads["x"] * (bad if quadratic.calls == 3 else 1)}

    with pytest.raises(ValueError, match="^step 3: .*expected .*finite"):
        train(loss_and_gradients, quadratic.optimizer, repeat((TARGET,)), 9, max_norm=1.0)
    quadratic.assert_two_steps_taken(max_norm=1.0)


def test_numbers_that_overflow_in_the_optimizer_are_named():
    x = np.zeros(2, np.float32)
    grads = {"x": np.full(2, 1e20, np.float32)}  # their squares overflow
    with pytest.raises(ValueError, match="step 1: .*overflow|step 1: .*finite"):
        train(lambda rng: (0.0, grads), Adam({"x": x}), repeat(()), 2)


def test_a_number_too_large_on_the_way_to_a_loss_is_told_by_the_loss(quadratic):
    def loss_and_gradients(target, rng):
        return np.exp(np.array(1e9)), {"x": target}

    with pytest.raises(ValueError, match="step 1: loss: expected a finite number"):
        train(loss_and_gradients, quadratic.optimizer, BATCHES, 1)


# Threads of BLAS


@pytest.mark.parametrize("one", [True, False])
def test_blas_has_one_thread_unless_told_otherwise(quadratic, one):
    seen = []

    def loss_and_gradients(target, rng):
        seen.append(blas_threads())
        return quadratic.loss_and_gradients(target, rng)

    with threadpool_limits(2, "blas"):
        before = blas_threads()
        settings = {} if one else {"one_blas_thread": False}
        train(loss_and_gradients, quadratic.optimizer, BATCHES, 1, **settings)
        assert blas_threads() == before
    assert seen == [{1} if one else before]


def test_without_threadpoolctl_the_threads_stay_as_they_are(quadratic, monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    assert len(quadratic.train(BATCHES, 1)) == 1


# Randomness


def numbers_drawn(steps, history=None, **options):
    """What the generator of each step draws first."""
    drawn = []

    def loss_and_gradients(rng):
        drawn.append(rng.random())
        return 0.0, {"x": np.zeros(1)}

    optimizer = SGD({"x": np.zeros(1)}, 1.0)
    train(loss_and_gradients, optimizer, repeat(()), steps, history=history, **options)
    return drawn


def test_the_generator_of_a_step_depends_on_the_seed_and_the_step_alone():
    drawn = numbers_drawn(5)
    assert len(set(drawn)) == 5
    history = [{"step": step, "loss": 0.0} for step in (1, 2)]
    assert numbers_drawn(5, history) == drawn[2:]
    assert numbers_drawn(5, seed=0) == drawn
    assert set(numbers_drawn(5, seed=1)).isdisjoint(drawn)


def test_it_is_not_the_generator_of_the_data():
    """The data of a step may come from the generators of (seed, step)."""
    drawn = numbers_drawn(3, seed=7)
    others = {np.random.default_rng((7, step)).random() for step in range(5)}
    assert others.isdisjoint(drawn)


def dropout_encoder():
    rng = np.random.default_rng(3)
    return Reconstructor(LayerSpec(8, 2, 16, "pre", dropout=0.5), 1, rng)


@pytest.mark.parametrize("threads", [None, 2])
def test_dropout_is_on_and_goes_on_as_if_training_had_not_stopped(rng, threads):
    batch = tuple(rng.normal(size=(2, 4, 3, 8)).astype(np.float32))

    def trained(*lengths):
        encoder, history = dropout_encoder(), []
        model = DataParallel(encoder, lambda x, y: len(x), threads) if threads else encoder
        optimizer = Adam(model.parameters)
        for length in lengths:
            train(model, optimizer, repeat(batch), length, history=history)
        return encoder.parameters(), [record["loss"] for record in history]

    whole, losses = trained(6)
    parts, losses_of_parts = trained(2, 6)
    assert losses == losses_of_parts
    assert all(np.array_equal(whole[name], parts[name]) for name in whole)
    undropped, _ = dropout_encoder().loss_and_gradients(*batch)
    assert abs(losses[0] - undropped) > 1e-3 * undropped


def test_batches_that_run_out_are_named(quadratic):
    history = []
    with pytest.raises(ValueError, match="batches: expected 5, got 2"):
        quadratic.train(BATCHES * 2, 5, history=history)
    with pytest.raises(ValueError, match="batches: expected 3, got 1"):
        quadratic.train(BATCHES, 5, history=history)
    assert len(history) == 3


def test_gradients_that_do_not_fit_are_named(quadratic):
    with pytest.raises(ValueError, match="step 1: grads: .*unknown y"):
        train(lambda rng: (1.0, {"y": TARGET}), quadratic.optimizer, repeat(()), 1)
