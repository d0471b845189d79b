"""What every optimiser promises."""

from copy import deepcopy
from functools import partial

import numpy as np
import pytest
from helpers.witnesses import assert_same_bits

from transformer_core.optim import SGD, Adam, AdamW, Muon, clip_by_global_norm
from transformer_core.training import Run

ADAM = "first_moment", "second_moment"
KINDS = {  # what makes one of parameters, and the averages that it keeps of each
    "SGD": (partial(SGD, learning_rate=0.1), ()),
    "SGD, momentum": (partial(SGD, learning_rate=0.1, momentum=0.9), ("velocity",)),
    "Adam": (Adam, ADAM),
    "AdamW": (AdamW, ADAM),
    "Muon": (partial(Muon, weight_decay=0.1), ("momentum",)),
}
every_kind = pytest.mark.parametrize("make, averages", KINDS.values(), ids=KINDS)


def draw(rng, averages, dtype=np.float64):
    """Draw arrays: matrices alone for Muon, a bias, gamma and beta for the others."""
    shapes = {"linear.weight": (3, 4), "table": (5, 4)}
    if averages != ("momentum",):
        shapes |= {"linear.bias": (4,), "norm.gamma": (4,), "norm.beta": (4,)}
    return {name: rng.normal(size=shape).astype(dtype) for name, shape in shapes.items()}


@every_kind
@pytest.mark.parametrize("max_norm", [None, 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_is_kept_and_gradients_are_not_modified(rng, make, averages, max_norm, dtype):
    parameters, grads = draw(rng, averages, dtype), draw(rng, averages, dtype)
    copies = deepcopy(grads)
    optimizer = make(parameters)
    for _ in range(2):
        optimizer.step(grads, max_norm)
        assert_same_bits(grads, copies)
    arrays = [*parameters.values(), *optimizer.state().values()]
    assert {array.dtype for array in arrays} == {np.dtype(dtype)}


@every_kind
def test_state_is_live_and_complete(rng, make, averages):
    parameters = draw(rng, averages)
    optimizer = make(parameters)
    state = optimizer.state()
    assert state.keys() == {f"{average}.{name}" for average in averages for name in parameters}
    optimizer.step(draw(rng, averages))
    assert all(array.all() for array in state.values())

    twin = deepcopy(parameters)
    resumed = make(twin)
    for name, array in resumed.state().items():
        array[...] = state[name]
    resumed.steps = optimizer.steps
    grads = draw(rng, averages)
    optimizer.step(grads)
    resumed.step(grads)
    assert_same_bits(twin, parameters)


@every_kind
def test_a_run_saves_and_resumes_it(tmp_path, rng, make, averages):
    parameters, twin = draw(rng, averages), draw(rng, averages)
    optimizer, resumed = make(parameters), make(twin)
    optimizer.step(draw(rng, averages))
    Run(tmp_path).save_checkpoint(parameters, optimizer)
    Run(tmp_path).load_checkpoint(twin, resumed)
    grads = draw(rng, averages)
    optimizer.step(grads)
    resumed.step(grads)
    assert resumed.steps == 2
    assert_same_bits(twin, parameters)


@every_kind
def test_clipping_is_that_of_the_function(rng, make, averages):
    first = draw(rng, averages)
    second = deepcopy(first)
    one, other = make(first), make(second)
    for _ in range(3):
        grads = draw(rng, averages)
        one.step(grads, max_norm=0.5)
        other.step(clip_by_global_norm(grads, 0.5)[0])
    assert_same_bits(first, second)


@every_kind
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_gradients_that_are_not_finite_update_nothing(rng, make, averages, wrong):
    parameters, grads = draw(rng, averages), draw(rng, averages)
    before = deepcopy(parameters)
    grads["table"][1, 0] = wrong
    optimizer = make(parameters)
    message = "grads: expected a finite norm, got (nan|inf) from table$"
    with pytest.raises(ValueError, match=message):
        optimizer.step(grads)
    assert optimizer.steps == 0
    assert_same_bits(parameters, before)
    assert not any(array.any() for array in optimizer.state().values())
