"""A training by the scheme that is asked for, and its state as one process alone has it."""

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, NamedTuple

from transformer_core.distributed.data_parallel import DataParallel
from transformer_core.distributed.sharded_optimizer import ShardedOptimizer
from transformer_core.distributed.sharded_parameters import ShardedParameters
from transformer_core.distributed.tensor_parallel_bert import TensorParallelBert
from transformer_core.models.bert import Bert
from transformer_core.optim.optimizer import Optimizer
from transformer_core.ranks import Communicator, grid


class OverRanks(NamedTuple):
    """A scheme that the loop takes, its optimiser, and how its state is stored.

    ``gather(root)`` returns the parameters and the optimiser of one process, on the rank ``root``
    or, if it is None, on all; ``scatter(parameters, optimizer)`` goes on from them; both are None
    if every rank has everything.
    """

    scheme: Any
    optimizer: Optimizer
    gather: Callable | None = None
    scatter: Callable | None = None


def over_ranks(
    model: Any,
    weight: Callable,
    build: Callable[..., Optimizer],
    communicator: Communicator,
    threads: int | None = None,
    zero_stage: int | None = None,
    tensor_parallel: int | None = None,
) -> OverRanks:
    """Train a model over ranks: data parallel, unless a ZeRO stage or a cut is asked for.

    Parameters
    ----------
    model, weight, communicator, threads
        As for :class:`DataParallel`.
    build : callable
        ``build(parameters)`` returns the optimiser, and takes ``map``.
    zero_stage : {1, 2, 3}, optional
    tensor_parallel : int, optional
        Among how many ranks each layer is cut. More ranks are data parallel.

    Raises
    ------
    ValueError
        If both are asked for, the model cannot be cut, or as the schemes do.
    """
    if zero_stage is not None and tensor_parallel is not None:
        raise ValueError("zero_stage: expected none with tensor_parallel, got both")
    if zero_stage is not None:
        kind: Callable = partial(ShardedOptimizer, stage=zero_stage)
        if zero_stage == 3:
            kind = ShardedParameters
        sharded = kind(model, build, communicator, weight=weight)
        return OverRanks(sharded, sharded.optimizer, sharded.gather, sharded.scatter)
    if tensor_parallel is None:
        whole = DataParallel(model, weight, threads, communicator)
        return OverRanks(whole, build(model.parameters, map=whole.map))
    if not isinstance(model, Bert):
        raise ValueError(
            f"tensor_parallel: expected a Bert to cut, got {type(model).__name__}"
        )
    row, column = grid(communicator, tensor_parallel)
    cut = TensorParallelBert(model, row)
    scheme = DataParallel(cut, weight, 1, column)
    optimizer = build(cut.parameters)

    def gather(root=None):
        alone = copy(optimizer)
        alone.parameters = cut.gather(optimizer.parameters)
        alone.averages = {n: cut.gather(a) for n, a in optimizer.averages.items()}
        return alone.parameters, alone

    def scatter(parameters, alone):
        whole = [parameters, *alone.averages.values()]
        pieces = [optimizer.parameters, *optimizer.averages.values()]
        for arrays, targets in zip(whole, pieces, strict=True):
            for name, array in cut.cut(arrays).items():
                targets[name][...] = array
        optimizer.steps = alone.steps

    return OverRanks(scheme, optimizer, gather, scatter)
