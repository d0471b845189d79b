"""Data parallelism: the shards of one batch, worked on by several threads."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from inspect import signature
from threading import Lock

import numpy as np

from transformer_core.foundation.checks import (
    check_array,
    check_positive_int,
    check_shape,
)
from transformer_core.training.accumulation import combine
from transformer_core.training.memory import keep_freed_memory


class DataParallel:
    r"""Cut each batch into shards, one a thread, and combine their gradients (eq:accumulation).

    NumPy lets go of the interpreter while it computes, so that two threads keep two cores busy,
    in the element-wise work as well as in the matrix products. For the products each thread is on
    its own: while any ``map`` runs, the BLAS library, which would start threads too, is held to
    one in the whole process. Needs threadpoolctl.

    To make a ``DataParallel`` changes the process: from then on it keeps the memory of freed
    arrays (``keep_freed_memory``).

    Parameters
    ----------
    loss_and_gradients : callable
        ``loss_and_gradients(*shard)`` returns the mean loss over the counted tokens of a shard,
        and the gradient of every parameter, in arrays of its own.
    weight : callable
        ``weight(*shard)`` returns the number of counted tokens. A shard without any is left out.
    threads : int
        The calling one included.

    The result depends on the number of threads by rounding alone, and for one number it is the
    same every time.
    """

    def __init__(
        self, loss_and_gradients: Callable, weight: Callable, threads: int = 2
    ):
        check_positive_int("threads", threads)
        self.loss_and_gradients, self.weight = loss_and_gradients, weight
        self.threads = threads
        self.pool = ThreadPoolExecutor(max(1, threads - 1))
        ONE_BLAS_THREAD.look_for_libraries()
        keep_freed_memory()

    def __call__(
        self, *batch: np.ndarray | None, rng: np.random.Generator | None = None
    ) -> tuple[float, dict[str, np.ndarray]]:
        """Return the loss and the gradients of a batch.

        Parameters
        ----------
        *batch : ndarray (B, ...) or (1, ...), or None
            The arguments of ``loss_and_gradients``; the first has the length B of the batch.
            Arrays of this length are cut along their first axis into shards of equal length, to
            one sequence. What is the same for all sequences, None or of length 1, goes to every
            shard as it is. An argument that ``loss_and_gradients`` calls ``keep``, or
            ``..._keep``, is a mask with all its four axes: (T, T) could be taken for (B, T).
        rng : numpy.random.Generator, optional
            Draws what is dropped. Each shard gets a generator of its own, ``rng=...``, whose seed
            is drawn from this one.

        Returns
        -------
        loss : float
        grads : dict of str to ndarray

        Raises
        ------
        ValueError
            If the arrays do not fit together, no token is counted, or as
            ``loss_and_gradients`` does.
        """
        names = argument_names(self.loss_and_gradients, len(batch))
        shards = cut(batch, self.threads, names)
        weighed = [(self.weight(*shard), shard) for shard in shards]
        weighed = [(weight, shard) for weight, shard in weighed if weight != 0]
        settings: list[dict] = [{} for _ in weighed]
        if rng is not None:
            seeds = rng.integers(2**63, size=len(weighed))
            settings = [{"rng": np.random.default_rng(seed)} for seed in seeds]

        def part(weight, shard, setting):
            return weight, *self.loss_and_gradients(*shard, **setting)

        parts = self.map(part, *zip(*weighed, strict=True), settings)
        _, loss, grads = combine(parts, in_place=True, map=self.map)
        return loss, grads

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
        remaining = iter(range(len(calls)))  # whoever is free takes the next one

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


class OneBlasThread:
    """Holds BLAS to one thread from the first that enters until the last one leaves.

    The number of its threads belongs to the process, so that every ``DataParallel`` shares this.
    """

    def __init__(self):
        self.lock, self.inside = Lock(), 0

    def look_for_libraries(self):
        from threadpoolctl import ThreadpoolController

        self.controller = ThreadpoolController()

    def __enter__(self):
        with self.lock:
            if self.inside == 0:
                release_control()
                self.limit = self.controller.limit(limits=1, user_api="blas")
                release_control()
            self.inside += 1

    def __exit__(self, *error):
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                release_control()
                self.limit.restore_original_limits()
                release_control()


def release_control():
    """Let any thread set limits: threadpoolctl obeys the first that does, and no other."""
    from threadpoolctl import OpenBLASController

    OpenBLASController.clear_controlling_thread(force=True)


ONE_BLAS_THREAD = OneBlasThread()


def cut(batch, shards, names):
    """Cut a batch into at most so many shards, none empty, by the rule of ``DataParallel``."""
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
    return [
        tuple(a if a is None or len(a) == 1 else a[start:stop] for a in batch)
        for start, stop in zip(edges, edges[1:], strict=False)
    ]


def argument_names(function, count):
    """Return what a function calls its first arguments; those without a name are counted."""
    names = [
        name
        for name, parameter in signature(function).parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    return [*names, *(f"array {i}" for i in range(len(names), count))][:count]
