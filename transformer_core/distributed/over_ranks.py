"""A training by the scheme that is asked for, and its state as one process alone has it."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from transformer_core.distributed.data_parallel import DataParallel
from transformer_core.distributed.sharded_optimizer import ShardedOptimizer
from transformer_core.distributed.sharded_parameters import ShardedParameters
from transformer_core.distributed.tensor_parallel_models import (
    TensorParallelBert,
    TensorParallelGpt,
)
from transformer_core.models.bert import Bert
from transformer_core.models.gpt import Gpt
from transformer_core.optim.optimizer import Optimizer
from transformer_core.ranks import Communicator, grid
from transformer_core.training.whole_state import WholeState


class OverRanks(NamedTuple):
    """A scheme that the loop takes, its optimiser, and how its state is stored.

    ``gather`` and ``scatter`` are those of a :class:`WholeState`, and None if every rank has
    everything.
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
        optimizer = sharded.optimizer
        join, piece_of = sharded.join_array, sharded.cut_array
        state = WholeState(optimizer, model.parameters(), join, piece_of)
        return OverRanks(sharded, optimizer, state.gather, state.scatter)
    if tensor_parallel is None:
        whole = DataParallel(model, weight, threads, communicator)
        return OverRanks(whole, build(model.parameters, map=whole.map))
    kinds = {Bert: TensorParallelBert, Gpt: TensorParallelGpt}
    if type(model) not in kinds:
        raise ValueError(
            "tensor_parallel: expected a Bert or a Gpt to cut, "
            f"got {type(model).__name__}"
        )
    row, column = grid(communicator, tensor_parallel)
    cut = kinds[type(model)](model, row)
    scheme = DataParallel(cut, weight, 1, column)
    optimizer = build(cut.parameters)

    state = WholeState(
        optimizer,
        model.parameters(),
        lambda name, piece: cut.gather({name: piece})[name],
        lambda name, array: cut.cut({name: array})[name],
    )
    return OverRanks(scheme, optimizer, state.gather, state.scatter)
