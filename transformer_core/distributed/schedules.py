"""When each stage of a pipeline works on which micro-batch: GPipe and 1F1B, slot by slot."""

from collections import deque
from fractions import Fraction
from typing import NamedTuple

from transformer_core.foundation.checks import check_positive_int

MOST_SLOTS = 2**22


class Step(NamedTuple):
    """What one stage does in one slot of time: a forward or a backward pass of a micro-batch."""

    slot: int
    stage: int
    forward: bool
    batch: int


def gpipe(stages: int, batches: int) -> list[Step]:
    """Return the schedule in which each stage does all forward passes, then all backward passes.

    A stage keeps what ``batches`` backward passes need. In the order of time.

    Raises
    ------
    ValueError
        If one of the numbers is not a positive whole number, or the slots of all stages are more
        than 2^22.

    Source: Huang et al. 2019.
    """
    return in_slots(stages, batches, lambda stage: batches)


def one_forward_one_backward(stages: int, batches: int) -> list[Step]:
    """Return the schedule 1F1B, in which a backward pass comes as soon as it can.

    Stage s of p begins with p - s forward passes; from then on backward and forward passes take
    turns, so that it keeps what p - s backward passes need, whatever their number. In the order of
    time.

    Source: Narayanan et al. 2019; Narayanan et al. 2021.
    """
    return in_slots(stages, batches, lambda stage: stages - stage)


def in_slots(stages, batches, ahead):
    """Let every stage do its next pass in the first slot in which what it needs is there.

    ``ahead(stage)`` is how many forward passes may lie before the next backward pass.
    """
    check_positive_int("stages", stages)
    check_positive_int("batches", batches)
    slots = 2 * int(stages) * (int(stages) + int(batches))
    if slots > MOST_SLOTS:
        raise ValueError(
            f"stages, batches: expected at most {MOST_SLOTS} slots of all stages, got {slots}"
        )
    orders = [deque(in_turn(batches, min(ahead(s), batches))) for s in range(stages)]
    done: set = set()
    steps: list[Step] = []

    def ready(stage, forward, batch):
        if forward:
            return stage == 0 or (stage - 1, True, batch) in done
        return stage == stages - 1 or (stage + 1, False, batch) in done

    slot = 0
    while any(orders):
        now = [
            Step(slot, stage, *order[0])
            for stage, order in enumerate(orders)
            if order and ready(stage, *order[0])
        ]
        for step in now:
            orders[step.stage].popleft()
            done.add(step[1:])
        steps += now
        slot += 1
    return steps


def in_turn(batches, ahead):
    """Order the passes of one stage: some forward ones, turns, the backward ones that are left."""
    forward = [(True, batch) for batch in range(batches)]
    backward = [(False, batch) for batch in range(batches)]
    turns = zip(backward, forward[ahead:], strict=False)
    return [
        *forward[:ahead],
        *(step for turn in turns for step in turn),
        *backward[batches - ahead :],
    ]


def bubble(schedule: list[Step]) -> Fraction:
    r"""Return the part of all slots in which a stage does nothing (eq:bubble).

    .. math::
        \frac{p - 1}{m + p - 1} \quad \text{for } p \text{ stages and } m \text{ micro-batches}

    That is so for GPipe and for 1F1B, if every pass takes one slot.

    Raises
    ------
    ValueError
        If the schedule is not a list of steps, one at least.
    """
    check_schedule(schedule)
    slots = 1 + max(step.slot for step in schedule)
    stages = 1 + max(step.stage for step in schedule)
    return 1 - Fraction(len(schedule), slots * stages)


def live_activations(schedule: list[Step]) -> list[int]:
    """Return for each stage how many micro-batches wait for their backward pass, at most."""
    check_schedule(schedule)
    stages = 1 + max(step.stage for step in schedule)
    live, peak = [0] * stages, [0] * stages
    for _, stage, forward, _ in schedule:
        live[stage] += 1 if forward else -1
        peak[stage] = max(peak[stage], live[stage])
    return peak


def check_schedule(schedule):
    """Raise ``ValueError`` unless a schedule is a list of steps, one at least."""
    steps = isinstance(schedule, list) and all(isinstance(s, Step) for s in schedule)
    if not steps or not schedule:
        raise ValueError(f"schedule: expected a list of steps, got {schedule!r:.80}")
