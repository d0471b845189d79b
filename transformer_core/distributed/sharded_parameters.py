"""ZeRO 3: each rank keeps its range of the parameters, and borrows the others layer by layer."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np

from transformer_core.distributed.communicator import Communicator
from transformer_core.distributed.sharded_optimizer import ShardedOptimizer, stacked
from transformer_core.layers.layer import Layer
from transformer_core.optim.optimizer import Optimizer


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


class ShardedParameters(ShardedOptimizer):
    r"""ZeRO 3: the parameters are cut over N ranks, as their gradients and the optimiser are.

    Each layer of a list is gathered before its forward and again before its backward
    (eq:zero-3). The rest of the model, such as a table that is the first thing and the last, is
    gathered once and stays from its forward to its backward. Together the ranks send
    (N - 1) (3 S - S_rest) bytes a step, for S bytes of parameters.

    Parameters
    ----------
    model, build, communicator
        As for :class:`ShardedOptimizer`. Between steps the arrays of the model are stand-ins
        without memory; :meth:`gather` returns the parameters. The layers in its lists become
        :class:`GatheredLayer`.

    Raises
    ------
    ValueError
        As :class:`ShardedOptimizer` does.

    Source: Rajbhandari et al. 2020; Zhao et al. 2023.
    """

    def __init__(
        self,
        model: Any,
        build: Callable[[dict[str, np.ndarray]], Optimizer],
        communicator: Communicator,
    ):
        def build_on_copies(pieces):
            return build({name: piece.copy() for name, piece in pieces.items()})

        super().__init__(model, build_on_copies, communicator, stage=2)
        for prefix, layers, i in stacked(model):
            put(layers[i].layer, self.buckets[prefix].stand_ins)
        if "" in self.buckets:
            put(model, self.buckets[""].stand_ins)

    def enclosed(self, layer: Any, prefix: str) -> Layer:
        gathered = partial(self.gathered, prefix, layer)
        return GatheredLayer(layer, gathered, partial(self.reduce, prefix))

    @contextmanager
    def gathered(self, prefix: str, layer: Any) -> Iterator[None]:
        """Give a layer its parameters, for as long as the context lasts."""
        bucket = self.buckets[prefix]
        pieces = self.optimizer.parameters
        own = {name: pieces[prefix + name] for name in bucket.spans}
        put(layer, bucket.all_gather(own))
        try:
            yield
        finally:
            put(layer, bucket.stand_ins)

    def loss_and_gradients(
        self, *shard: Any, weight: float, **settings: Any
    ) -> tuple[float, dict[str, np.ndarray]]:
        """As :meth:`ShardedOptimizer.loss_and_gradients`."""
        rest = self.gathered("", self.model) if "" in self.buckets else nullcontext()
        with rest:
            return super().loss_and_gradients(*shard, weight=weight, **settings)

    def publish(self) -> None:
        """Do nothing: who needs the pieces gathers them."""


def as_it_is(value):
    """Return an array itself, and of anything else, such as a generator, a copy."""
    return value if isinstance(value, np.ndarray) else deepcopy(value)


def put(layer: Any, arrays: dict[str, np.ndarray]) -> None:
    """Put arrays in the place of a layer's parameters, by their names."""
    for name, array in arrays.items():
        *path, last = name.split(".")
        owner = layer
        for part in path:
            owner = owner.sublayers()[part]
        setattr(owner, last, array)
