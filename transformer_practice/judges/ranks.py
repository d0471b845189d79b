"""The judge of many machines: every scheme beside one process alone."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from transformer_core.distributed import (
    DataParallel,
    LocalSteps,
    PipelineBert,
    ShardedOptimizer,
    ShardedParameters,
    TensorParallelBert,
    TensorParallelGpt,
    gpipe,
    one_forward_one_backward,
)
from transformer_core.foundation.names import summary
from transformer_core.layers import AttentionSpec, LayerSpec, NormSpec
from transformer_core.models import Bert, Gpt, StackSpec
from transformer_core.optim import AdamW
from transformer_core.ranks import CommunicationError, on_threads
from transformer_practice.judges.checks import (
    IDS,
    KEEP,
    MASKED,
    RIGHT_IDS,
    SEGMENTS,
    D,
    F,
    H,
    V,
    randomised,
)

STEPS, RATE, MAX_NORM, TOLERANCE = 2, 0.01, 0.5, 1e-10
ROUNDS, OUTER_RATE, MOMENTUM = 2, 0.7, 0.9  # of local steps
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
    parameters: dict[str, np.ndarray]  # all, or those that a rank has


class Scheme(NamedTuple):
    size: int  # ranks
    train: Callable  # train(communicator) returns what one rank has trained
    alone: Callable  # the same by one process: alone() returns Trained


def ranks_check() -> str | None:
    """Compare a few clipped steps of every scheme, on two to four ranks, with one process alone.

    A tied Bert in float64 at a random point, three sequences with unequal numbers of masked
    tokens; and a tied Gpt whose two heads share one of keys, with norms. All ranks have to end
    with the same losses and parameters as one process.

    Returns
    -------
    str or None
        What fails first.
    """
    references: dict = {}
    for name, (size, train, alone) in SCHEMES.items():
        try:
            with np.errstate(all="ignore"):
                ranks = on_threads(size, train, patience=5)
                if alone not in references:
                    references[alone] = alone()
        except REFUSED as error:
            return f"{name}: {error}"
        losses, parameters = references[alone]
        for rank, trained in enumerate(ranks):
            if not np.allclose(trained.losses, losses, rtol=TOLERANCE, atol=0):
                return f"{name}: losses {trained.losses} on rank {rank}, alone {losses}"
            for parameter, array in trained.parameters.items():
                off = np.abs(array - parameters[parameter]).max()
                if not off < TOLERANCE:
                    return f"{name}: error {off:.0e} in {parameter} on rank {rank}"
        missing = parameters.keys() - {n for rank in ranks for n in rank.parameters}
        if missing:
            return f"{name}: no rank has {summary(missing)}"
    return None


def new_model(dropout=0.0):
    attention = AttentionSpec(H, bias=False)
    spec = LayerSpec(D, attention, F, "post", feed_forward="gelu", dropout=dropout, dtype="float64")
    stack = StackSpec(V, LENGTH, layers=2)
    rng = np.random.default_rng(0)
    return randomised(Bert(spec, stack, rng, tied=True, segments=2, embedding_norm=True))


def new_gpt():
    attention = AttentionSpec(H, 4, bias=False, key_heads=1, transform="qk_norm_rotary")
    norm = NormSpec("rms_norm")
    spec = LayerSpec(D, attention, F, "pre", norm, "swiglu", dtype="float64")
    return randomised(Gpt(spec, StackSpec(V, LENGTH, layers=2), np.random.default_rng(0)))


def optimizer_of(parameters):
    return AdamW(parameters, RATE)


def counted(ids, targets, masked, *others):
    return int(masked.sum())


def steps_of(loss_and_gradients, step):
    """Take some steps; return their losses."""
    losses = []
    for _ in range(STEPS):
        loss, grads = loss_and_gradients()
        losses.append(float(loss))
        step(grads, MAX_NORM)
    return losses


def trained(model, batch):
    """Take some steps with a model, or with what stands for one on a rank."""
    optimizer = optimizer_of(model.parameters())
    losses = steps_of(lambda: model.loss_and_gradients(*batch), optimizer.step)
    return Trained(losses, model.parameters())


def one_process():
    return trained(new_model(), BATCH)


def gpt_in_one_process():
    return trained(new_gpt(), BATCH[:2])


def data_parallel(communicator):
    model = DataParallel(new_model(), counted, threads=1, communicator=communicator)
    return trained(model, BATCH)


def sharded(make, communicator):
    scheme = make(new_model(), optimizer_of, communicator)
    shard = rows_of(communicator.rank, communicator.size)
    losses = steps_of(
        lambda: scheme.of_shard(*shard, weight=counted(*shard)), scheme.optimizer.step
    )
    return Trained(losses, scheme.gather()[0])


def tensor_parallel(sequence, communicator):
    return gathered(TensorParallelBert(new_model(), communicator, sequence), BATCH)


def tensor_parallel_gpt(sequence, communicator):
    return gathered(TensorParallelGpt(new_gpt(), communicator, sequence), BATCH[:2])


def gathered(model, batch):
    losses, pieces = trained(model, batch)
    return Trained(losses, model.gather(pieces))


def pipeline(communicator, dropout=0.0, **settings):
    stage = PipelineBert(new_model(dropout), communicator, **settings)
    optimizer = optimizer_of(stage.parameters())
    batches = [rows_of(row, len(IDS)) for row in range(len(IDS))]
    rng = np.random.default_rng(7) if dropout else None
    losses = steps_of(lambda: stage.in_micro_batches(batches, rng), optimizer.step)
    return Trained(losses, stage.parameters())


def pipeline_that_keeps():
    """The stages with all their caches: what they drop depends on how many there are."""
    stages = on_threads(2, partial(pipeline, dropout=0.3), patience=5)
    return Trained(stages[0].losses, stages[0].parameters | stages[1].parameters)


def local_steps(communicator):
    model = new_model()
    optimizer = optimizer_of(model.parameters())
    shard = rows_of(communicator.rank, communicator.size)
    outer = LocalSteps(model.parameters(), OUTER_RATE, MOMENTUM)
    for _ in range(ROUNDS):
        steps_of(lambda: model.loss_and_gradients(*shard), optimizer.step)
        outer.meet(communicator, counted(*shard))
    return Trained([], model.parameters())


def local_steps_alone():
    """Two models in turn, and the outer step written out."""
    shards = [rows_of(rank, 2) for rank in range(2)]
    models = [new_model() for _ in shards]
    optimizers = [optimizer_of(model.parameters()) for model in models]
    shared = new_model().parameters()
    velocity = {name: np.zeros_like(array) for name, array in shared.items()}
    weights = np.array([counted(*shard) for shard in shards], float)
    weights /= weights.sum()
    for _ in range(ROUNDS):
        for model, optimizer, shard in zip(models, optimizers, shards, strict=True):
            steps_of(partial(model.loss_and_gradients, *shard), optimizer.step)
        for name, array in shared.items():
            ends = [model.parameters()[name] for model in models]
            delta = array - np.tensordot(weights, ends, 1)
            velocity[name] = MOMENTUM * velocity[name] + delta
            array -= OUTER_RATE * (delta + MOMENTUM * velocity[name])
            for end in ends:
                end[...] = array
    return Trained([], shared)


def rows_of(rank, size):
    """Return every ``size``-th sequence of the batch, from ``rank`` on."""
    return tuple(array[rank::size] for array in BATCH)


SCHEMES = {
    "data parallel": Scheme(4, data_parallel, one_process),  # one without a sequence
    "sharded optimiser, stage 1": Scheme(3, partial(sharded, ShardedOptimizer), one_process),
    "sharded optimiser, stage 2": Scheme(
        2, partial(sharded, partial(ShardedOptimizer, stage=2)), one_process
    ),
    "sharded parameters": Scheme(3, partial(sharded, ShardedParameters), one_process),
    "tensor parallel": Scheme(2, partial(tensor_parallel, False), one_process),
    "sequence parallel": Scheme(2, partial(tensor_parallel, True), one_process),
    "pipeline, GPipe": Scheme(2, partial(pipeline, schedule=gpipe), one_process),
    "pipeline, 1F1B": Scheme(2, partial(pipeline, schedule=one_forward_one_backward), one_process),
    "pipeline, recomputed": Scheme(
        2, partial(pipeline, dropout=0.3, recompute=True), pipeline_that_keeps
    ),
    "tensor parallel GPT": Scheme(2, partial(tensor_parallel_gpt, False), gpt_in_one_process),
    "sequence parallel GPT": Scheme(2, partial(tensor_parallel_gpt, True), gpt_in_one_process),
    "local steps": Scheme(2, local_steps, local_steps_alone),
}
