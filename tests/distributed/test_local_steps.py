"""Local steps with an outer optimiser: what one round does, what it sends, who may be away."""

import numpy as np
import pytest
from helpers.sharding import assert_close
from helpers.witnesses import assert_same_bits

from transformer_core.distributed import LocalSteps
from transformer_core.layers import LayerSpec
from transformer_core.optim import SGD, AdamW
from transformer_core.ranks import Group, on_threads
from transformer_core.tasks.reconstruction import Reconstruction, Reconstructor
from transformer_core.training import combine

SIZES = [1, 2, 3, 4]
SEQUENCES = [3, 1, 2, 4]  # of each rank: unequal


def model_and_task(dtype=np.float64):
    rng = np.random.default_rng(0)
    task = Reconstruction(rng, length=5, width=8, dtype=dtype)
    spec = LayerSpec(8, 2, 11, "pre", dtype=dtype)
    return Reconstructor(spec, 1, rng, final_norm=True), task


def batches(task, rank, steps):
    rng = np.random.default_rng([1, rank])
    return [task.sample(SEQUENCES[rank], rng) for _ in range(steps)]


def values(seed):
    rng = np.random.default_rng(seed)
    return {"weight": rng.normal(size=(2, 3)), "bias": rng.normal(size=3)}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.equation("eq:diloco-outer")
def test_a_meeting_after_every_plain_step_is_data_parallel(size):
    steps, rate, outer = 4, 0.3, 0.7

    def work(communicator):
        model, task = model_and_task()
        inner = SGD(model.parameters(), rate)
        local = LocalSteps(model.parameters(), outer, momentum=0)
        for batch in batches(task, communicator.rank, steps):
            inner.step(model.loss_and_gradients(*batch)[1])
            local.meet(communicator, SEQUENCES[communicator.rank])
        return model.parameters()

    model, task = model_and_task()
    optimizer = SGD(model.parameters(), rate * outer)
    for shards in zip(*(batches(task, r, steps) for r in range(size)), strict=True):
        parts = [(len(s[0]), *model.loss_and_gradients(*s)) for s in shards]
        optimizer.step(combine(parts)[2])
    for parameters in on_threads(size, work):
        assert_close(parameters, model.parameters(), 1e-13)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.equation("eq:diloco-inner")
@pytest.mark.equation("eq:diloco-outer")
def test_rounds_by_hand(size):
    """Two rounds written out, with ranks that took different numbers of steps."""
    taken = [3, 1, 2, 5]
    eta, mu = 0.6, 0.8

    def inner(theta, rank, before, steps):
        """Steps of AdamW from theta, with gradients theta + rank of their own."""
        before.parameters["x"][...] = theta
        for _ in range(steps):
            before.step({"x": before.parameters["x"] + rank})
        return before.parameters["x"].copy()

    start = np.array([1.0, -2.0, 0.5])
    optimizers = [AdamW({"x": start.copy()}, 0.1) for _ in range(size)]
    theta, b, share = start, 0.0, np.array(taken[:size]) / sum(taken[:size])
    for _ in range(2):
        ends = [inner(theta, r, optimizers[r], taken[r]) for r in range(size)]
        delta = sum(s * (theta - end) for s, end in zip(share, ends, strict=True))
        b = mu * b + delta
        theta = theta - eta * (delta + mu * b)

    def work(communicator):
        rank, parameters = communicator.rank, {"x": start.copy()}
        optimizer, local = AdamW(parameters, 0.1), LocalSteps(parameters, eta, mu)
        for _ in range(2):
            for _ in range(taken[rank]):
                optimizer.step({"x": parameters["x"] + rank})
            local.meet(communicator, taken[rank])
        return parameters["x"]

    for x in on_threads(size, work):
        np.testing.assert_allclose(x, theta, rtol=0, atol=1e-14)


def test_the_mean_of_the_weights_is_an_outer_step_of_rate_1_without_momentum():
    ends = [values(rank) for rank in range(3)]

    def work(communicator):
        parameters = values(10)
        local = LocalSteps(parameters, learning_rate=1, momentum=0)
        for name, parameter in parameters.items():
            parameter[...] = ends[communicator.rank][name]
        local.meet(communicator)
        return parameters

    mean = {name: np.mean([end[name] for end in ends], axis=0) for name in ends[0]}
    for parameters in on_threads(3, work):
        assert_close(parameters, mean, 1e-15)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.equation("eq:local-bytes")
def test_a_meeting_sends_what_the_formula_says(size):
    def work(communicator):
        LocalSteps(values(0)).meet(communicator)
        return communicator.sent

    sent = [t for ranks in on_threads(size, work) for t in ranks.values()]
    nbytes = sum(array.nbytes for array in values(0).values())
    expected = 2 * (size - 1) * nbytes + 8 * size * (size - 1)
    assert sum(traffic.bytes for traffic in sent) == expected
    assert sum(traffic.messages for traffic in sent) == 3 * size * (size - 1)


def test_all_ranks_have_the_same_bits_in_single_precision():
    def work(communicator):
        model, task = model_and_task(dtype=np.float32)
        optimizer = AdamW(model.parameters())
        local = LocalSteps(model.parameters())
        for step, batch in enumerate(batches(task, communicator.rank, 6)):
            optimizer.step(model.loss_and_gradients(*batch)[1])
            if step % 3 == 2:
                local.meet(communicator)
        return local.shared

    first, *others = on_threads(4, work)
    assert first.dtype == np.float32
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_a_rank_that_was_away_takes_over_weights_and_velocity():
    def join(communicator):
        """Ranks 0 and 2 meet without rank 1, which then comes back for a last round."""
        parameters = values(0)
        local = LocalSteps(parameters)

        def train():
            for parameter in parameters.values():
                parameter += 0.1 * (1 + communicator.rank)

        train()
        local.meet(communicator)
        if communicator.rank != 1:
            train()
            local.meet(Group(communicator, [0, 2]))
        if communicator.rank != 2:
            local.catch_up(Group(communicator, [0, 1]))
        before = {"shared before": local.shared.copy(), "velocity before": local.velocity.copy()}
        train()
        local.meet(communicator)
        return parameters | before | {"shared": local.shared, "velocity": local.velocity}

    first, *others = on_threads(3, join)
    for other in others:
        assert_same_bits(other, first)


def test_a_weight_of_0_does_not_count():
    def work(communicator, moves):
        parameters = values(0)
        local = LocalSteps(parameters)
        if communicator.rank != 1 or moves:
            parameters["weight"] += 1 + communicator.rank
        local.meet(communicator, weight=float(communicator.rank != 1))
        return parameters["weight"]

    for still, moved in zip(on_threads(3, work, False), on_threads(3, work, True), strict=True):
        np.testing.assert_array_equal(still, moved)


@pytest.mark.parametrize("weights", [(0, 0), (-1, 2), (np.nan, 1), (np.inf, 1)])
def test_weights_that_cannot_be_are_refused_by_every_rank(weights):
    def work(communicator):
        with pytest.raises(ValueError, match=r"^weight: expected finite numbers"):
            LocalSteps(values(0)).meet(communicator, weights[communicator.rank])
        return True

    assert all(on_threads(2, work))
