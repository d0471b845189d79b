"""The judge of many machines: every scheme beside one process alone."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from transformer_core.distributed import (
    CommunicationError,
    ShardedOptimizer,
    ShardedParameters,
    TensorParallelBert,
    on_threads,
)
from transformer_core.optim import AdamW
from transformer_core.practice.checks import (
    IDS,
    KEEP,
    MASKED,
    RIGHT_IDS,
    SEGMENTS,
    bert,
    randomised,
)
from transformer_core.training import DataParallel

STEPS, RATE, MAX_NORM, TOLERANCE = 2, 0.01, 0.5, 1e-10
LENGTH = 4  # of a sequence: two ranks have to divide it
BATCH = (
    IDS[:, :LENGTH],
    RIGHT_IDS[:, :LENGTH],
    MASKED[:, :LENGTH],
    KEEP[..., :LENGTH],
    SEGMENTS[:, :LENGTH],
)
REFUSED = (CommunicationError, ArithmeticError, LookupError, TypeError, ValueError)


class Trained(NamedTuple):
    losses: list[float]
    parameters: dict[str, np.ndarray]


def ranks_check() -> str | None:
    """Compare a few clipped steps of every scheme, on two or three ranks, with one process alone.

    A tied Bert in float64 at a random point, three sequences with unequal numbers of masked
    tokens. All ranks have to end with the same losses and parameters as one process.

    Returns
    -------
    str or None
        What fails first.
    """
    alone = one_process()
    for name, (size, scheme) in SCHEMES.items():
        try:
            with np.errstate(all="ignore"):
                ranks = on_threads(size, scheme, patience=5)
        except REFUSED as error:
            return f"{name}: {error}"
        for rank, (losses, parameters) in enumerate(ranks):
            if not np.allclose(losses, alone.losses, rtol=TOLERANCE, atol=0):
                return f"{name}: losses {losses} on rank {rank}, alone {alone.losses}"
            for parameter, array in alone.parameters.items():
                error = np.abs(parameters[parameter] - array).max()
                if not error < TOLERANCE:
                    return f"{name}: error {error:.0e} in {parameter} on rank {rank}"
    return None


def new_model():
    build = bert(tied=True, segments=2, embedding_norm=True, feed_forward="gelu")
    return randomised(build(np.float64))


def optimizer_of(parameters):
    return AdamW(parameters, RATE)


def counted(ids, targets, masked, *others):
    return int(masked.sum())


def trained(loss_and_gradients, step):
    """Return the losses of some steps."""
    losses = []
    for _ in range(STEPS):
        loss, grads = loss_and_gradients()
        losses.append(float(loss))
        step(grads, MAX_NORM)
    return losses


def one_process():
    model = new_model()
    optimizer = optimizer_of(model.parameters())
    losses = trained(lambda: model.loss_and_gradients(*BATCH), optimizer.step)
    return Trained(losses, model.parameters())


def data_parallel(communicator):
    model = new_model()
    optimizer = optimizer_of(model.parameters())
    parallel = DataParallel(
        model.loss_and_gradients, counted, threads=1, communicator=communicator
    )
    losses = trained(lambda: parallel(*BATCH), optimizer.step)
    return Trained(losses, model.parameters())


def sharded(make, communicator):
    optimizer = make(new_model(), optimizer_of, communicator)
    shard = [array[communicator.rank :: communicator.size] for array in BATCH]
    losses = trained(
        lambda: optimizer.loss_and_gradients(*shard, weight=counted(*shard)),
        optimizer.step,
    )
    return Trained(losses, optimizer.gather()[0])


def tensor_parallel(sequence, communicator):
    model = TensorParallelBert(new_model(), communicator, sequence)
    optimizer = optimizer_of(model.parameters())
    optimizer.norm = model.norm
    losses = trained(lambda: model.loss_and_gradients(*BATCH), optimizer.step)
    return Trained(losses, model.gather(model.parameters()))


SCHEMES: dict[str, tuple[int, Callable]] = {
    "data parallel": (4, data_parallel),  # one of them without a sequence
    "sharded optimiser, stage 1": (3, partial(sharded, ShardedOptimizer)),
    "sharded optimiser, stage 2": (
        2,
        partial(sharded, partial(ShardedOptimizer, stage=2)),
    ),
    "sharded parameters": (3, partial(sharded, ShardedParameters)),
    "tensor parallel": (2, partial(tensor_parallel, False)),
    "sequence parallel": (2, partial(tensor_parallel, True)),
}
