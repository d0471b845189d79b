"""Data parallelism: the shards of one batch, worked on by several threads."""

from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context

import numpy as np

from transformer_core.foundation.checks import check_array, check_positive_int
from transformer_core.training.accumulation import combine
from transformer_core.training.memory import keep_freed_memory


class DataParallel:
    r"""Cut each batch into shards, one a thread, and combine their gradients (eq:accumulation).

    NumPy lets go of the interpreter while it computes, so that two threads keep two cores busy,
    in the element-wise work as well as in the matrix products. For the products each thread is on
    its own: the BLAS library, which would start threads too, is held to one. Needs threadpoolctl.

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

    def __init__(self, loss_and_gradients, weight, threads=2):
        from threadpoolctl import ThreadpoolController

        check_positive_int("threads", threads)
        self.loss_and_gradients, self.weight = loss_and_gradients, weight
        self.threads = threads
        self.pool = ThreadPoolExecutor(threads)
        self.controller = ThreadpoolController()
        keep_freed_memory()

    def __call__(self, *batch, rng=None):
        """Return the loss and the gradients of a batch.

        Parameters
        ----------
        *batch : ndarray (B, ...) or None
            The arguments of ``loss_and_gradients``. Arrays are cut along their first axis into
            shards of equal length, to one sequence; None goes to every shard as it is.
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
            If the arrays are not of one length, no token is counted, or as
            ``loss_and_gradients`` does.
        """
        shards = [s for s in cut(batch, self.threads) if self.weight(*s) > 0]
        if rng is None:
            settings = [{} for _ in shards]
        else:
            seeds = rng.integers(2**63, size=len(shards))
            settings = [{"rng": np.random.default_rng(seed)} for seed in seeds]

        def part(shard, setting):
            return self.weight(*shard), *self.loss_and_gradients(*shard, **setting)

        parts = self.map(part, shards, settings)
        _, loss, grads = combine(parts, in_place=True, map=self.map)
        return loss, grads

    def map(self, function, *items):
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
        items = list(zip(*items, strict=True))

        def share(k):
            return [function(*item) for item in items[k :: self.threads]]

        with self.controller.limit(limits=1, user_api="blas"):
            others = [
                self.pool.submit(copy_context().run, share, k)
                for k in range(1, min(self.threads, len(items)))
            ]
            try:
                results = [share(0)]
            finally:
                wait(others)
            results += [other.result() for other in others]
        return [results[i % self.threads][i // self.threads] for i in range(len(items))]


def cut(batch, shards):
    """Cut the arrays of a batch along their first axis: at most so many shards, none empty."""
    arrays = [array for array in batch if array is not None]
    for i, array in enumerate(arrays):
        check_array(f"array {i} of the batch", array)
    lengths = {array.shape[:1] for array in arrays}
    if len(lengths) != 1 or () in lengths:
        shapes = ", ".join(str(array.shape) for array in arrays) or "none"
        raise ValueError(f"batch: expected arrays of one length, got {shapes}")
    ((length,),) = lengths
    edges = np.linspace(0, length, min(shards, length) + 1).round().astype(int)
    return [
        tuple(None if array is None else array[start:stop] for array in batch)
        for start, stop in zip(edges, edges[1:], strict=False)
    ]
