"""A pipeline is one process, cut; its schedules are counted slot by slot."""

from fractions import Fraction

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

both = pytest.mark.parametrize("schedule", [gpipe, one_forward_one_backward])
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


@pytest.mark.equation("eq:pipeline-backward")
@both
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_the_stages_have_the_gradients_of_one_process(stages, tied, schedule):
    loss, grads = whole(build(tied))

    def work(c):
        model = build(tied)
        stage = PipelineBert(model, c, schedule)
        mine, stage_grads = stage.in_micro_batches(micro_batches())
        assert stage_grads.keys() == stage.parameters().keys()
        for name, array in stage.parameters().items():
            assert array is model.parameters()[name]
        return mine, stage_grads

    found = on_threads(stages, work, patience=20)
    assert {name for _, part in found for name in part} == grads.keys()
    assert_parts_of(found, loss, grads)
    if tied:
        first, last = found[0][1]["tokens.table"], found[-1][1]["tokens.table"]
        np.testing.assert_array_equal(first, last)


@pytest.mark.equation("eq:global-norm-sharded")
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_the_norm_counts_every_parameter_once(stages, tied):
    def work(c):
        stage = PipelineBert(build(tied), c)
        return stage.norm(stage.in_micro_batches(micro_batches())[1])

    expected = global_norm(whole(build(tied))[1])
    norms = on_threads(stages, work)
    assert norms == [norms[0]] * stages
    assert norms[0] == pytest.approx(expected, rel=1e-13)


@both
def test_the_schedules_give_the_same_bits(schedule):
    def work(c, order):
        return PipelineBert(build(), c, order).in_micro_batches(micro_batches())

    expected = on_threads(2, work, gpipe)
    for (loss, grads), (other, others) in zip(on_threads(2, work, schedule), expected, strict=True):
        assert loss == other
        assert_same_bits(grads, others)


@both
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_the_stages_send_what_the_formula_says(stages, tied, schedule):
    def work(c):
        PipelineBert(build(tied), c, schedule).in_micro_batches(micro_batches())
        return c.sent

    sent = {"pipeline": 0, "tied": 0, "broadcast": 0}
    for rank in on_threads(stages, work):
        for operation, traffic in rank.items():
            sent[operation] += traffic.bytes
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


@both
@pytest.mark.parametrize("tied", [True, False])
def test_the_loop_trains_it_as_it_is_to_the_numbers_of_one_process(tied, schedule):
    columns = [np.concatenate(arrays) for arrays in zip(*micro_batches(), strict=True)]

    def trained(model):
        optimizer = SGD(model.parameters(), 0.1)
        history = train(model, optimizer, [columns] * 3, 3, max_norm=0.1, progress=False)
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


@pytest.mark.equation("eq:pipeline-recompute")
@both
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_stages_drop_alike_in_both_passes(stages, recompute, schedule):
    """The seed is the first that the generator draws; a process alone drops stage by stage."""
    seed = int(np.random.default_rng(6).integers(2**63))
    loss, grads = whole_with_drops(build(dropout=0.3), seed, stages)

    def work(c):
        stage = PipelineBert(build(dropout=0.3), c, schedule, recompute=recompute)
        return stage.in_micro_batches(micro_batches(), np.random.default_rng(6))

    assert_parts_of(on_threads(stages, work, patience=20), loss, grads)


@pytest.mark.equation("eq:pipeline-recompute")
@both
def test_a_pass_that_is_run_again_gives_the_same_bits(schedule):
    def work(c, recompute):
        stage = PipelineBert(build(dropout=0.3), c, schedule, recompute=recompute)
        return stage.in_micro_batches(micro_batches(), np.random.default_rng(6))

    pairs = zip(on_threads(3, work, False), on_threads(3, work, True), strict=True)
    for (loss, grads), (again, others) in pairs:
        assert loss == again
        assert_same_bits(others, grads)


@pytest.mark.equation("eq:pipeline-recompute")
@both
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_a_stage_that_runs_its_passes_again_keeps_their_inputs_and_one_cache(stages, schedule):
    batch = micro_batches()[0]  # six times: all micro-batches keep the same
    live = live_activations(schedule(stages, 6))

    def work(c, recompute, batches):
        stage = Watched(build(), c, schedule, recompute=recompute)
        stage.in_micro_batches(batches)
        return stage.most

    alone = on_threads(stages, work, False, [batch])
    kept = on_threads(stages, work, False, [batch] * 6)
    again = on_threads(stages, work, True, [batch] * 6)
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
