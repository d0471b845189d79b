"""ZeRO 3: each rank keeps its range of the parameters, and borrows the others layer by layer."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np

from transformer_core.distributed.sharded_optimizer import ShardedOptimizer, stacked
from transformer_core.layers.layer import Layer
from transformer_core.optim.optimizer import Optimizer, Pieces
from transformer_core.ranks.communicator import Communicator


class GatheredLayer(Layer):
    """A layer whose parameters are there only while it computes (eq:zero-3).

    Its cache is its forward with its inputs, to be called again before the backward: the layer's
    own cache would keep the parameters. What was dropped is dropped again.

    Parameters
    ----------
    layer : layer
    gathered : callable
        Returns a context in which the layer has its parameters.
    reduce : callable
        As for :class:`ReducedLayer`.
    """

    def __init__(
        self,
        layer: Any,
        gathered: Callable[[], AbstractContextManager],
        reduce: Callable[[dict], dict],
    ):
        self.layer, self.gathered, self.reduce = layer, gathered, reduce

    def parameters(self) -> dict[str, np.ndarray]:
        """Return those of the layer, or what stands in for them."""
        return self.layer.parameters()

    def forward(self, *inputs, **settings):
        """Do what the layer does."""
        again = partial(
            self.layer.forward,
            *map(as_it_is, inputs),
            **{name: as_it_is(value) for name, value in settings.items()},
        )
        with self.gathered():
            y, _ = self.layer.forward(*inputs, **settings)
        return y, again

    def backward(self, dy, again):
        """Do what the layer does, after its forward; its gradients end here."""
        with self.gathered():
            _, cache = again()
            *dinputs, grads = self.layer.backward(dy, cache)
        return *dinputs, self.reduce(grads)


class Absent(np.ndarray):
    """The shape of a parameter whose numbers are on all ranks, without memory for them."""

    def refuse(self, *arguments, **settings):
        raise ValueError(
            "parameters: expected the numbers, got their shapes: between steps each rank has its "
            "range of them alone; all of them are there in `with sharded.whole_model():`"
        )

    __getitem__ = __array_ufunc__ = __array_function__ = refuse  # type: ignore[assignment]


class ShardedParameters(ShardedOptimizer):
    r"""ZeRO 3: the parameters are cut over N ranks, as their gradients and the optimiser are.

    Each layer of a list is gathered before its forward and again before its backward
    (eq:zero-3). The rest of the model, such as a table that is the first thing and the last, is
    gathered once and stays from its forward to its backward. Together the ranks send
    (N - 1) (3 S - S_rest) bytes per step, for S bytes of parameters.

    Parameters
    ----------
    model, build, communicator
        As for :class:`ShardedOptimizer`. Between steps the arrays of the model are stand-ins
        without memory; :meth:`gather` returns the parameters. The layers in its lists become
        :class:`GatheredLayer`.

    Source: Rajbhandari et al. 2020; Zhao et al. 2023.
    """

    def __init__(
        self,
        model: Any,
        build: Callable[[dict[str, np.ndarray]], Optimizer],
        communicator: Communicator,
        weight: Callable | None = None,
    ):
        def build_on_copies(pieces):
            copies = {name: piece.copy() for name, piece in pieces.items()}
            return build(Pieces(copies, self.norm))

        super().__init__(model, build_on_copies, communicator, 2, weight)
        self.release()

    def owners(self) -> Iterator[tuple[str, Any]]:
        """Yield the layers that are buckets, and the model for the rest, by their prefixes."""
        for prefix, layers, i in stacked(self.model):
            yield prefix, layers[i]
        if "" in self.buckets:
            yield "", self.model

    def release(self) -> None:
        """Leave the model with the shapes of its parameters."""
        for prefix, owner in self.owners():
            owner.set_parameters(absent(self.buckets[prefix]))

    @contextmanager
    def whole_model(self) -> Iterator[None]:
        """Give the model its parameters for a while; every rank has to take part."""
        with ExitStack() as stack:
            for prefix, owner in self.owners():
                stack.enter_context(self.gathered(prefix, owner))
            yield

    def enclosed(self, layer: Any, prefix: str) -> Layer:
        gathered = partial(self.gathered, prefix, layer)
        return GatheredLayer(layer, gathered, partial(self.reduce, prefix))

    @contextmanager
    def gathered(self, prefix: str, layer: Any) -> Iterator[None]:
        """Give a layer its parameters, for as long as the context lasts."""
        bucket = self.buckets[prefix]
        pieces = self.optimizer.parameters
        own = {name: pieces[prefix + name] for name in bucket.spans}
        layer.set_parameters(bucket.all_gather(own))
        try:
            yield
        finally:
            layer.set_parameters(absent(bucket))

    def of_shard(
        self, *shard: Any, weight: float, **settings: Any
    ) -> tuple[float, dict[str, np.ndarray]]:
        """As :meth:`ShardedOptimizer.of_shard`."""
        rest = self.gathered("", self.model) if "" in self.buckets else nullcontext()
        with rest:
            return super().of_shard(*shard, weight=weight, **settings)

    def publish(self) -> None:
        """Do nothing: who needs the pieces gathers them."""


def absent(bucket):
    """Return what stands for the parameters of a bucket between uses."""
    return {name: array.view(Absent) for name, array in bucket.stand_ins.items()}


def as_it_is(value):
    """Return an array itself, and of anything else, such as a generator, a copy."""
    return value if isinstance(value, np.ndarray) else deepcopy(value)
