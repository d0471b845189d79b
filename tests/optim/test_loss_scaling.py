import math
from functools import partial

import numpy as np
import pytest
from helpers.witnesses import generators
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.optim import SGD, Adam, LossScale, unscale
from transformer_core.training import train

ROOM = 65504.0  # the largest number of float16


def draw(rng, scale=1.0):
    return {"weight": scale * rng.normal(size=(3, 4)), "bias": scale * rng.normal(size=4)}


def in_float16(grads, calls=None):
    """A ``loss_and_gradients`` whose gradients are computed in float16."""

    def loss_and_gradients(*batch, rng=None, dloss=1.0):
        if calls is not None:
            calls.append((batch, dloss))
        with np.errstate(over="ignore"):
            return 2.5, {name: (dloss * grad).astype(np.float16) for name, grad in grads.items()}

    return loss_and_gradients


@pytest.mark.equation("eq:loss-scaling")
@given(generators, st.integers(-20, 20))
def test_a_power_of_two_is_taken_back_bit_by_bit(rng, exponent):
    grads, scale = draw(rng), 2.0**exponent
    back = unscale({name: scale * grad for name, grad in grads.items()}, scale)
    assert all(np.array_equal(back[name], grads[name]) for name in grads)
    assert not any(np.shares_memory(back[name], grads[name]) for name in grads)


@pytest.mark.equation("eq:loss-scaling")
def test_what_float16_cannot_hold_is_there_after_scaling():
    small = {"a": np.array([1e-9, -3e-8, 2e-5])}
    (_, lost), (_, kept) = in_float16(small)(), LossScale(in_float16(small))()
    assert lost["a"][0] == 0
    assert kept["a"].dtype == np.float32
    assert np.allclose(kept["a"], small["a"], rtol=2.0**-11)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_quotient_has_at_least_float32(dtype):
    back = unscale({"a": np.array([1.5], dtype)}, 2.0**30)
    assert back["a"].dtype == np.result_type(dtype, np.float32) and back["a"] == 1.5 / 2**30


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", ["weight", "bias"])
def test_one_number_that_is_not_finite_stops_the_step(rng, name, bad):
    grads = draw(rng)
    grads[name].flat[2] = bad
    assert unscale(grads, 2.0) is None


@pytest.mark.equation("eq:dynamic-scale")
def test_the_scale_is_halved_until_the_gradients_are_finite():
    calls: list = []
    grads = {"a": np.array([3.0, -1e-6])}
    scaling = LossScale(in_float16(grads, calls), 2.0**20)
    loss, found = scaling("batch", rng=None)
    fits = 2.0 ** math.floor(math.log2(ROOM / 3))
    assert scaling.scale == fits
    assert [scale for _, scale in calls] == [2.0**k for k in range(20, 13, -1)]
    assert {batch for batch, _ in calls} == {("batch",)}
    assert loss == 2.5 and np.allclose(found["a"], grads["a"], rtol=1e-3)


@pytest.mark.equation("eq:dynamic-scale")
def test_the_scale_is_doubled_after_so_many_finite_batches_in_a_row():
    grads = {"a": np.ones(1)}
    scaling = LossScale(in_float16(grads), 4.0, patience=3)
    scales = []
    for step in range(12):
        grads["a"][0] = 30000.0 if step == 4 else 1.0  # overflows once, at 4 and 8
        scaling()
        scales.append(scaling.scale)
    assert scales == [4, 4, 8, 8, 2, 2, 4, 4, 4, 8, 8, 8]


def test_what_no_scale_makes_finite_is_named():
    scaling = LossScale(in_float16({"a": np.array([np.inf])}), 16.0)
    with pytest.raises(ValueError, match="grads: expected finite ones at the scale 1, got others"):
        scaling()


def test_a_scaled_training_with_clipping_is_the_training_without_a_scale(rng):
    """The check for infinity comes before the clipping, which would make 0 or NaN of it."""
    target = rng.normal(size=5).astype(np.float16)

    def loss_and_gradients(parameters, rng=None, dloss=1.0):
        with np.errstate(over="ignore"):
            grad = np.float16(dloss) * (parameters["a"].astype(np.float16) - target)
        return float(((parameters["a"] - target) ** 2).sum()), {"a": grad}

    def trained(wrap):
        parameters = {"a": np.zeros(5, np.float32)}
        train(
            wrap(partial(loss_and_gradients, parameters)),
            SGD(parameters, 0.1),
            [()] * 30,
            30,
            max_norm=0.3,
            progress=False,
        )
        return parameters["a"]

    scaled = trained(partial(LossScale, scale=2.0**17, patience=4))
    assert np.isfinite(scaled).all()
    assert np.allclose(scaled, trained(lambda function: function), rtol=1e-3)


def test_adam_hides_a_scale_that_is_not_taken_back_and_clipping_does_not(rng):
    grads = draw(rng)
    scaled = {name: 2.0**16 * grad for name, grad in grads.items()}

    def step(optimizer, grads, max_norm):
        parameters = {name: np.zeros_like(grad) for name, grad in grads.items()}
        optimizer(parameters, 0.1).step(grads, max_norm)
        return parameters["weight"]

    assert np.allclose(step(Adam, scaled, None), step(Adam, grads, None), rtol=1e-6)
    long = 100.0  # longer than the gradients, shorter than the scaled ones
    assert not np.allclose(step(SGD, scaled, long), step(SGD, grads, long), rtol=0.1)


@pytest.mark.parametrize("scale", [3.0, 0.0, -2.0, math.inf, math.nan])
def test_a_scale_that_is_no_power_of_two_is_named(scale):
    with pytest.raises(ValueError, match="scale: expected a p"):
        LossScale(in_float16({}), scale)
