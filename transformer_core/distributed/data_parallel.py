"""Data parallelism: the shards of one batch, worked on by several threads or ranks."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import cached_property
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from transformer_core.distributed.memory import keep_freed_memory
from transformer_core.foundation.checks import (
    check_array,
    check_positive_int,
    check_shape,
)
from transformer_core.ranks import Communicator, flatten, unflatten
from transformer_core.training.accumulation import combine
from transformer_core.training.blas import ONE_BLAS_THREAD


class Shard(NamedTuple):
    """Some sequences of a batch."""

    number: int
    weight: float
    arrays: tuple
    drawn: dict  # the generators of its sequences, as rng, if anything is drawn


class DataParallel:
    r"""Cut each batch into shards, one per thread of each rank (eq:data-parallel).

    Their losses and gradients are combined into those of the whole batch (eq:accumulation), first
    those of one rank, then, in the order of the ranks, those of all:

    .. math::
        n = \sum_r n_r, \qquad
        \mathcal{L} = \sum_r \frac{n_r}{n} \, \mathcal{L}_r, \qquad
        \bar{\theta} = \sum_r \frac{n_r}{n} \, \bar{\theta}_r

    Every rank is called with the whole batch, and returns the same bits. It sends
    :math:`2 \frac{N - 1}{N}` times the bytes of the gradients, and n and the loss.

    NumPy releases the interpreter lock while it computes, so that two threads keep two cores busy,
    in the element-wise work as well as in the matrix products. For the products each thread is on
    its own: while any ``map`` runs, the BLAS library, which would start threads too, is held to
    one in the whole process. Needs threadpoolctl.

    Creating a ``DataParallel`` changes the process: from then on it keeps the memory of freed
    arrays (``keep_freed_memory``).

    Parameters
    ----------
    model : model, or callable
        ``model.loss_and_gradients(*shard)`` returns the mean loss over the counted tokens of a
        shard, and the gradient of every parameter, in arrays of its own; or that function itself.
    weight : callable
        ``weight(*shard)`` returns the number of counted tokens. A shard without any is left out.
    threads : int, optional
        The calling one included. Default: 2 for a process alone, 1 for one rank of several.
    communicator : Communicator, optional
        Default: a process alone. With several ranks the gradients have one dtype.

    The result depends on the number of shards by rounding alone, and for one number it is the
    same every time, be they worked on by threads or, one on each, by ranks.
    """

    def __init__(
        self,
        model: Any,
        weight: Callable,
        threads: int | None = None,
        communicator: Communicator | None = None,
    ):
        self.communicator = communicator or Communicator()
        if threads is None:
            threads = 2 if self.communicator.size == 1 else 1
        check_positive_int("threads", threads)
        self.model, self.weight, self.threads = model, weight, threads
        self.pool = ThreadPoolExecutor(max(1, threads - 1))
        ONE_BLAS_THREAD.look_for_libraries()
        keep_freed_memory()

    def parameters(self) -> dict[str, np.ndarray]:
        """Return the model's."""
        return self.model.parameters()

    def loss_and_gradients(
        self, *batch: np.ndarray | None, rng: np.random.Generator | None = None
    ) -> tuple[float, dict[str, np.ndarray]]:
        """Return the loss and the gradients of a batch.

        Parameters
        ----------
        *batch, rng
            As for ``shards``, which cuts it.

        Returns
        -------
        loss : float
        grads : dict of str to ndarray
        """
        size, rank = self.communicator.size, self.communicator.rank
        compute = getattr(self.model, "loss_and_gradients", self.model)
        every = shards(compute, self.weight, batch, size * self.threads, rng)
        counted = [shard for shard in every if shard.weight != 0]
        own = [shard for shard in counted if shard.number // self.threads == rank]

        def part(shard):
            return shard.weight, *compute(*shard.arrays, **shard.drawn)

        # Who has none works on another's, and counts it for nothing.
        parts = self.map(part, own or counted[:1])
        weight, loss, grads = combine(parts, in_place=True, map=self.map)
        if size == 1:
            return loss, grads
        return self.over_ranks(weight if own else 0.0, loss, grads)

    def over_ranks(
        self, weight: float, loss: float, grads: dict[str, np.ndarray]
    ) -> tuple[float, dict[str, np.ndarray]]:
        """Combine the parts of all ranks: each rank a piece of the gradients, for all."""
        communicator, flat = self.communicator, flatten(grads)
        figures = communicator.all_gather(np.array([[weight, loss]], np.float64))
        pieces = communicator.exchange(
            [flat[piece] for piece in communicator.bounds(flat.size)], "reduce_scatter"
        )
        parts = [
            (weight, loss, {"piece": piece})
            for (weight, loss), piece in zip(figures.tolist(), pieces, strict=True)
        ]
        _, loss, mean = combine(parts, in_place=True, map=self.map)
        return loss, unflatten(communicator.all_gather(mean["piece"]), grads)

    def map(self, function: Callable, *items: Iterable) -> list:
        """Call a function on each item, as the builtin does, in several threads.

        Parameters
        ----------
        function : callable
            What it does for one item must not depend on what it did for another.
        *items : iterable
            One for each argument of ``function``.

        Returns
        -------
        list
            What the function returned, in the order of the items.
        """
        calls = list(zip(*items, strict=True))
        results = [None] * len(calls)
        remaining = iter(range(len(calls)))  # a free worker takes the next one

        def work():
            for i in remaining:
                results[i] = function(*calls[i])

        with ONE_BLAS_THREAD:
            others = [
                self.pool.submit(copy_context().run, work)
                for _ in range(min(self.threads, len(calls)) - 1)
            ]
            try:
                work()
            finally:
                list(remaining)  # after an error nobody takes another
                started = [other for other in others if not other.cancel()]
                wait(started)
        for other in started:
            other.result()
        return results


class SequenceGenerators:
    """Draws like a generator, the numbers of each sequence of a batch from one of its own."""

    def __init__(self, seeds: np.ndarray):
        self.seeds = seeds

    @cached_property
    def generators(self) -> list[np.random.Generator]:
        return [np.random.default_rng(seed) for seed in self.seeds]

    def random(self, shape: tuple[int, ...], dtype: type = np.float64) -> np.ndarray:
        """Return uniform numbers (B, ...) in [0, 1) for the B sequences."""
        numbers: np.ndarray = np.empty(shape, dtype)
        rows = numbers.reshape(len(numbers), -1)
        for generator, row in zip(self.generators, rows, strict=True):
            generator.random(dtype=dtype, out=row)
        return numbers


def shards(
    compute: Callable,
    weight: Callable,
    batch: tuple[np.ndarray | None, ...],
    count: int,
    rng: np.random.Generator | None,
) -> list[Shard]:
    """Cut a batch into at most so many shards, none empty.

    Parameters
    ----------
    compute, weight : callable
        What the shards are for, which knows their names, and what counts their tokens.
    batch : tuple of ndarray (B, ...) or (1, ...), or None
        The arguments of ``compute``; the first has the length B of the batch. Arrays of this
        length are cut along their first axis into shards of equal length, to one sequence. What is
        the same for all sequences, None or of length 1, goes to every shard as it is. An argument
        that ``compute`` calls ``keep``, or ``..._keep``, is a mask with all its four axes: (T, T)
        could be taken for (B, T).
    count : int
    rng : numpy.random.Generator, optional
        Draws what is dropped. Each sequence gets a generator of its own, whose seed is drawn from
        this one: however a batch is cut, the same is dropped.
    """
    parts = cut(batch, count, argument_names(compute, len(batch)))
    length = parts[-1][0].stop
    seeds = None if rng is None else rng.integers(2**63, size=length)

    def drawn(rows):
        return {} if seeds is None else {"rng": SequenceGenerators(seeds[rows])}

    return [
        Shard(number, weight(*arrays), arrays, drawn(rows))
        for number, (rows, arrays) in enumerate(parts)
    ]


def cut(batch, shards, names):
    """Return the rows and the arrays of each shard."""
    lengths = []
    for name, array in zip(names, batch, strict=True):
        if array is None:
            continue
        check_array(name, array)
        if name == "keep" or name.endswith("_keep"):
            check_shape(name, array, "B or 1", "H or 1", "T or 1", "S")
        check_shape(name, array, "B", *array.shape[1:])
        lengths.append(len(array))
        if len(array) not in (1, lengths[0]):
            raise ValueError(
                f"{name}: expected {lengths[0]} sequences, or 1 for all, got {len(array)}"
            )
    if not lengths:
        raise ValueError("batch: expected at least one array, got none")
    length = lengths[0]
    edges = np.linspace(0, length, min(shards, length) + 1).round().astype(int)
    ranges = [slice(*edge) for edge in zip(edges, edges[1:], strict=False)]
    return [
        (rows, tuple(a if a is None or len(a) == 1 else a[rows] for a in batch))
        for rows in ranges
    ]


def argument_names(function, count):
    """Return what a function calls its first arguments; those without a name are counted."""
    names = [
        name
        for name, parameter in signature(function).parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    return [*names, *(f"array {i}" for i in range(len(names), count))][:count]
