"""Malformed input to ranks: collectives, groups, cut layers, schedules."""

import numpy as np
from malformed import (
    Answers,
    Booleans,
    Choice,
    Floats,
    Ids,
    Mask,
    both_tests,
    call,
    whole,
)

from transformer_core import distributed
from transformer_core.distributed import Communicator, on_threads
from transformer_core.layers import AttentionSpec, LayerSpec, Linear
from transformer_core.models import Bert, StackSpec

ALONE = Communicator()
PAIR = distributed.conjugate_pair(ALONE)


def random():
    return np.random.default_rng(0)


def column():
    return distributed.ColumnParallel(Linear(6, 7, random(), "float64"), PAIR[0])


def row():
    return distributed.RowParallel(Linear(6, 7, random(), "float64"), PAIR[1])


def there_and_back(layer, x, dy):
    return layer.backward(dy, layer.forward(x)[1])


def bert():
    spec = LayerSpec(6, AttentionSpec(2), 7, "pre", dtype="float64")
    return Bert(spec, StackSpec(9, 3, 1), random(), tied=True)


def cross_entropy(logits, targets):
    _, cache = distributed.vocabulary_cross_entropy(logits, targets, 9, ALONE)
    return distributed.vocabulary_cross_entropy_backward(1.0, cache)


def on_two(work):
    """Call ``work(communicator, ...)`` on two ranks, with the same arguments."""
    return lambda **given: on_threads(2, lambda c: work(c, **given))


def array():
    """What is no array of numbers; its shape and dtype may be any."""
    return Choice(
        np.ones((3, 6)),
        [None, [], [1.0], {}, 3, 0.5, "text", np.array("text"), np.array([1], object)],
    )


CALLS = {
    "Communicator.all_gather": call(on_two(Communicator.all_gather), piece=array()),
    "Communicator.all_reduce": call(on_two(Communicator.all_reduce), array=array()),
    "Communicator.broadcast": call(on_two(Communicator.broadcast), array=array()),
    "Communicator.exchange": call(
        on_two(Communicator.exchange),
        parts=Choice(2 * [np.ones(3)], [[], [1, 2], 3 * [np.ones(3)]]),
    ),
    "Communicator.reduce_scatter": call(
        on_two(Communicator.reduce_scatter),
        array=array(),
        axis=Choice(0, [2, -3, 10**30]),
    ),
    "ColumnParallel": call(
        lambda x, dy: there_and_back(column(), x, dy),
        x=Floats("... 6"),
        dy=Floats("... 7"),
    ),
    "Group": call(
        on_two(distributed.Group), ranks=Choice([0, 1], [[], [2], [0, 0], [1, 1]])
    ),
    "RowParallel": call(
        lambda x, dy: there_and_back(row(), x, dy),
        x=Floats("... 6"),
        dy=Floats("... 7"),
    ),
    "TensorParallelBert": call(
        lambda **batch: distributed.TensorParallelBert(
            bert(), ALONE
        ).loss_and_gradients(**batch),
        ids=Ids("B 3", below=9),
        targets=Answers("B 3", below=9),
        masked=Booleans("B 3"),
        keep=Mask("B 2 3 3"),
    ),
    "gpipe": call(distributed.gpipe, stages=whole(2), batches=whole(3)),
    "grid": call(
        lambda tensor: distributed.grid(ALONE, tensor),
        tensor=Choice(1, [0, -1, 2, 2.5, "1", None, True]),
    ),
    "one_forward_one_backward": call(
        distributed.one_forward_one_backward, stages=whole(2), batches=whole(3)
    ),
    "vocabulary_cross_entropy": call(
        cross_entropy,
        logits=Floats("... 9"),
        targets=Ids("...", below=9),
    ),
}


test_valid_calls_pass, test_what_is_malformed_is_named = both_tests(CALLS)
