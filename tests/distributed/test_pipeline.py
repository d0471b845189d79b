"""A pipeline is one process, cut; its schedules are counted slot by slot."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from helpers.pipeline_cases import (
    LAYERS,
    VOCABULARY,
    WIDTH,
    Watched,
    build,
    gradients_and_sent,
    micro_batches,
    whole,
    whole_with_drops,
)
from helpers.ranks import on_mpi, on_processes
from helpers.witnesses import assert_same_bits

from transformer_core.distributed import (
    PipelineBert,
    Step,
    bubble,
    gpipe,
    live_activations,
    one_forward_one_backward,
)
from transformer_core.optim import SGD
from transformer_core.optim.clipping import global_norm
from transformer_core.ranks import on_threads
from transformer_core.training import train

thorough = pytest.mark.thorough
both = pytest.mark.parametrize("schedule", [gpipe, one_forward_one_backward])
every_number = pytest.mark.parametrize("stages", [1, 2, 3, pytest.param(4, marks=thorough)])
grid = pytest.mark.parametrize(
    "stages, batches", [(1, 1), (1, 4), (2, 1), (2, 5), (3, 2), (4, 4), (4, 9), (8, 3)]
)


@pytest.mark.equation("eq:bubble")
@both
@grid
def test_the_bubble_is_what_its_formula_says(schedule, stages, batches):
    steps = schedule(stages, batches)
    assert bubble(steps) == Fraction(stages - 1, batches + stages - 1)
    assert 1 + max(step.slot for step in steps) == 2 * (batches + stages - 1)


@both
@grid
def test_every_pass_is_done_once_and_not_before_what_it_needs(schedule, stages, batches):
    slots = {step[1:]: step.slot for step in schedule(stages, batches)}
    assert len(slots) == len(schedule(stages, batches)) == 2 * stages * batches
    for (stage, forward, batch), slot in slots.items():
        if forward and stage:
            assert slots[stage - 1, True, batch] < slot
        if not forward:
            assert slots[stage, True, batch] < slot
            if stage < stages - 1:
                assert slots[stage + 1, False, batch] < slot
    busy = [(step.slot, step.stage) for step in schedule(stages, batches)]
    assert len(set(busy)) == len(busy)


@grid
def test_what_waits_for_its_backward_pass(stages, batches):
    assert live_activations(gpipe(stages, batches)) == [batches] * stages
    assert live_activations(one_forward_one_backward(stages, batches)) == [
        min(stages - stage, batches) for stage in range(stages)
    ]


def test_two_stages_and_two_micro_batches_slot_by_slot():
    F, B = True, False
    expected = [(0, 0, F, 0), (1, 0, F, 1), (1, 1, F, 0), (2, 1, B, 0)]
    expected += [(3, 0, B, 0), (3, 1, F, 1), (4, 1, B, 1), (5, 0, B, 1)]
    assert one_forward_one_backward(2, 2) == [Step(*step) for step in expected]


def assert_parts_of(stages, loss, grads):
    """Every stage has the loss, and some of the gradients."""
    for mine, part in stages:
        assert mine == pytest.approx(loss, rel=1e-13)
        for name, grad in part.items():
            scale = np.abs(grads[name]).max()
            np.testing.assert_allclose(grad, grads[name], rtol=0, atol=1e-12 * scale, err_msg=name)


@cache
def of_one_process(tied):
    return whole(build(tied))


@cache
def of_stages(stages, tied, schedule):
    """The loss, the gradients, what was sent, and the norm of each stage."""

    def work(c):
        model = build(tied)
        stage = PipelineBert(model, c, schedule)
        loss, grads = stage.in_micro_batches(micro_batches())
        assert grads.keys() == stage.parameters().keys()
        whole = model.parameters()
        for name, array in stage.parameters().items():
            assert array is whole[name]
        sent = {operation: traffic.bytes for operation, traffic in c.sent.items()}
        return loss, grads, sent, stage.norm(grads)

    return on_threads(stages, work, patience=20)


@pytest.mark.equation("eq:pipeline-backward")
@both
@pytest.mark.parametrize("tied", [True, False])
@every_number
def test_the_stages_have_the_gradients_of_one_process(stages, tied, schedule):
    loss, grads = of_one_process(tied)
    found = [(mine, part) for mine, part, *_ in of_stages(stages, tied, schedule)]
    assert {name for _, part in found for name in part} == grads.keys()
    assert_parts_of(found, loss, grads)
    if tied:
        first, last = found[0][1]["tokens.table"], found[-1][1]["tokens.table"]
        np.testing.assert_array_equal(first, last)


@pytest.mark.equation("eq:global-norm-sharded")
@pytest.mark.parametrize("tied", [True, False])
@every_number
def test_the_norm_counts_every_parameter_once(stages, tied):
    expected = global_norm(of_one_process(tied)[1])
    norms = [norm for *_, norm in of_stages(stages, tied, one_forward_one_backward)]
    assert norms == [norms[0]] * stages
    assert norms[0] == pytest.approx(expected, rel=1e-13)


@both
def test_the_schedules_give_the_same_bits(schedule):
    def work(c):
        return PipelineBert(build(), c, schedule).in_micro_batches(micro_batches())

    expected = of_stages(2, True, gpipe)
    for (loss, grads), (other, others, *_) in zip(on_threads(2, work), expected, strict=True):
        assert loss == other
        assert_same_bits(grads, others)


@both
@pytest.mark.parametrize("tied", [True, False])
@every_number
def test_the_stages_send_what_the_formula_says(stages, tied, schedule):
    sent = {"pipeline": 0, "tied": 0, "broadcast": 0}
    for _, _, of_stage, _ in of_stages(stages, tied, schedule):
        for operation, count in of_stage.items():
            sent[operation] += count
    positions = sum(ids.size for ids, _, masked, *_ in micro_batches() if masked.any())
    cut, table = positions * WIDTH * 8, VOCABULARY * WIDTH * 8
    assert sent == {
        "pipeline": 2 * (stages - 1) * cut,
        "tied": 2 * table * (tied and stages > 1),
        "broadcast": 8 * (stages - 1),
    }


@on_mpi
def test_two_processes_give_the_bits_of_two_threads(tmp_path):
    ranks = on_processes(2, gradients_and_sent, tmp_path), on_threads(2, gradients_and_sent)
    for found, expected in zip(*ranks, strict=True):
        assert_same_bits(found, expected)


def test_a_stage_without_layers_is_refused():
    def work(c):
        with pytest.raises(ValueError, match=f"at most {LAYERS} ranks, .* got 5"):
            PipelineBert(build(), c)

    on_threads(LAYERS + 1, work)


@pytest.mark.parametrize("batches", [[], micro_batches()[-1:]])
def test_nothing_to_count_is_refused(batches):
    def work(c):
        with pytest.raises(ValueError, match="batches: expected at least one counted"):
            PipelineBert(build(), c).in_micro_batches(batches)

    on_threads(2, work)


@pytest.mark.parametrize(
    "tied, schedule",
    [
        (True, one_forward_one_backward),
        (False, gpipe),
        pytest.param(True, gpipe, marks=thorough),
        pytest.param(False, one_forward_one_backward, marks=thorough),
    ],
)
def test_the_loop_trains_it_as_it_is_to_the_numbers_of_one_process(tied, schedule):
    columns = [np.concatenate(arrays) for arrays in zip(*micro_batches(), strict=True)]

    def trained(model):
        optimizer = SGD(model.parameters(), 0.1)
        history = train(model, optimizer, [columns] * 2, 2, max_norm=0.1, progress=False)
        return [record["loss"] for record in history], model.parameters()

    def work(c):
        return trained(PipelineBert(build(tied), c, schedule, micro_batches=3))

    losses, parameters = trained(build(tied))
    for found, of_stage in on_threads(2, work):
        np.testing.assert_allclose(found, losses, rtol=0, atol=1e-12)
        for name, array in of_stage.items():
            np.testing.assert_allclose(array, parameters[name], rtol=0, atol=1e-12)


def test_a_norm_that_is_not_finite_is_told_by_every_rank():
    def work(c):
        stage = PipelineBert(build(), c)
        _, grads = stage.in_micro_batches(micro_batches())
        if c.rank == 1:
            grads = {name: np.full_like(grad, np.nan) for name, grad in grads.items()}
        with pytest.raises(ValueError, match="grads: expected a finite norm, got nan from"):
            stage.norm(grads)

    on_threads(2, work)


@cache
def of_dropping_stages(stages, recompute, schedule):
    def work(c):
        stage = PipelineBert(build(dropout=0.3), c, schedule, recompute=recompute)
        return stage.in_micro_batches(micro_batches(), np.random.default_rng(6))

    return on_threads(stages, work, patience=20)


@cache
def dropping_alone(stages):
    """The seed is the first that the generator draws; a process alone drops stage by stage."""
    seed = int(np.random.default_rng(6).integers(2**63))
    return whole_with_drops(build(dropout=0.3), seed, stages)


@pytest.mark.equation("eq:pipeline-recompute")
@both
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize(
    "stages", [1, pytest.param(2, marks=thorough), 3, pytest.param(4, marks=thorough)]
)
def test_stages_drop_alike_in_both_passes(stages, recompute, schedule):
    assert_parts_of(of_dropping_stages(stages, recompute, schedule), *dropping_alone(stages))


@pytest.mark.equation("eq:pipeline-recompute")
@both
def test_a_pass_that_is_run_again_gives_the_same_bits(schedule):
    pairs = zip(*(of_dropping_stages(3, again, schedule) for again in (False, True)), strict=True)
    for (loss, grads), (again, others) in pairs:
        assert loss == again
        assert_same_bits(others, grads)


@pytest.mark.equation("eq:pipeline-recompute")
@both
@pytest.mark.parametrize("stages", [1, 2, pytest.param(4, marks=thorough)])
def test_a_stage_that_runs_its_passes_again_keeps_their_inputs_and_one_cache(stages, schedule):
    batch = micro_batches()[0]  # five times: all micro-batches keep the same
    live = live_activations(schedule(stages, 5))

    def work(c, recompute, batches):
        stage = Watched(build(), c, schedule, recompute=recompute)
        stage.in_micro_batches(batches)
        return stage.most

    alone = on_threads(stages, work, False, [batch])
    kept = on_threads(stages, work, False, [batch] * 5)
    again = on_threads(stages, work, True, [batch] * 5)
    for s in range(stages):
        x = batch[0].size * WIDTH * 8 if s else 0  # the first stage is given ids alone
        cache = alone[s] - x
        assert kept[s] == live[s] * cache + x  # and the input that it has just read
        assert again[s] == cache + live[s] * x


@both
def test_a_schedule_of_too_many_slots_is_refused(schedule):
    for sizes in ((2**31 - 1, 2), (2, 2**31 - 1)):
        with pytest.raises(ValueError, match="stages, batches: expected at most 4194304 slots"):
            schedule(*sizes)
