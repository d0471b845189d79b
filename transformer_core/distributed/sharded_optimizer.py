"""ZeRO 1 and 2: each rank keeps the optimiser's state of its range of the parameters."""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from functools import partial
from typing import Any

import numpy as np

from transformer_core.distributed.data_parallel import shards
from transformer_core.foundation.checks import (
    check_not_negative,
    check_real,
    check_reals,
)
from transformer_core.foundation.chunks import chunks
from transformer_core.foundation.names import check_fit, stand_in, summary
from transformer_core.layers.layer import Layer, member
from transformer_core.optim.clipping import check_real_gradients, sum_of_squares
from transformer_core.optim.optimizer import Optimizer, Pieces
from transformer_core.ranks.communicator import Communicator
from transformer_core.ranks.flat import check_one_dtype, flatten, unflatten


class Bucket:
    """Arrays laid end to end, of which each rank keeps one range.

    Parameters
    ----------
    arrays : dict of str to ndarray
        Of one dtype. Only their names and shapes are kept.
    communicator : Communicator

    Attributes
    ----------
    spans : dict
        By name, a slice: what of each flat array is this rank's. An array that has no part of
        the range is not there.
    stand_ins : dict
        By name, an array of the same shape, without memory.

    Raises
    ------
    ValueError
        If ``arrays`` is not a dict of arrays of one dtype; from the collectives, if what they are
        given has not the names and the shapes.
    """

    def __init__(self, arrays: dict[str, np.ndarray], communicator: Communicator):
        check_one_dtype("arrays", arrays)
        self.communicator = communicator
        self.stand_ins = {name: stand_in(array) for name, array in arrays.items()}
        total = sum(array.size for array in arrays.values())
        own = communicator.bounds(total)[communicator.rank]
        self.spans, start = {}, 0
        for name, array in arrays.items():
            first, last = max(own.start - start, 0), min(own.stop - start, array.size)
            if first < last:
                self.spans[name] = slice(first, last)
            start += array.size

    def reduce_scatter(
        self, grads: dict[str, np.ndarray], share: float
    ) -> dict[str, np.ndarray]:
        """Return this rank's range of the sum over the ranks of ``share`` times their gradients."""
        check_fit("grads", grads, self.stand_ins)
        check_not_negative("share", share)
        buffer = flatten({name: grads[name] for name in self.stand_ins})
        buffer *= share
        piece = self.communicator.reduce_scatter(buffer)
        ends = np.cumsum([at.stop - at.start for at in self.spans.values()])
        return dict(zip(self.spans, np.split(piece, ends[:-1]), strict=False))

    def all_gather(self, pieces: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return whole arrays, made of the ranges of all ranks."""
        own = {
            name: self.stand_ins[name].reshape(-1)[span]
            for name, span in self.spans.items()
        }
        check_fit("pieces", pieces, own)
        for name, piece in own.items():
            if pieces[name].dtype != piece.dtype:
                raise ValueError(
                    f"pieces: {name}: expected {piece.dtype}, got {pieces[name].dtype}"
                )
        dtype = next(iter(self.stand_ins.values())).dtype
        parts = [pieces[name] for name in self.spans]
        piece = np.concatenate([np.empty(0, dtype), *parts])
        return unflatten(self.communicator.all_gather(piece), self.stand_ins)


class ReducedLayer(Layer):
    """A layer whose backward hands its gradients on at once, and returns what it gets for them.

    Parameters
    ----------
    layer : layer
    reduce : callable
        ``reduce(grads)`` returns this rank's pieces of the gradients' sum over the ranks.
    """

    def __init__(self, layer: Any, reduce: Callable[[dict], dict]):
        self.layer, self.reduce = layer, reduce

    def parameters(self) -> dict[str, np.ndarray]:
        """Return those of the layer, under the same names."""
        return self.layer.parameters()

    def forward(self, *inputs, **settings):
        """Do what the layer does."""
        return self.layer.forward(*inputs, **settings)

    def backward(self, dy, cache):
        """Do what the layer does; its gradients end here (eq:zero-2)."""
        *dinputs, grads = self.layer.backward(dy, cache)
        return *dinputs, self.reduce(grads)


class ShardedOptimizer:
    r"""ZeRO 1 and 2: each of N ranks has the optimiser of one range of the parameters.

    .. math::
        g^{(r)} = \Bigl(\sum_{j=0}^{N-1} \frac{n_j}{n} \, \bar{\theta}_j\Bigr)^{(r)},
        \qquad
        \theta^{(r)} \leftarrow \operatorname{step}(\theta^{(r)}, g^{(r)}),
        \qquad
        \theta = [\theta^{(0)}, \dots, \theta^{(N-1)}]

    with the range (r) of rank r and the counted tokens n_j of rank j: a reduce-scatter of the
    gradients (eq:reduce-scatter) and an all-gather of the parameters (eq:all-gather). Together
    the ranks send 2 (N - 1) times the bytes of the parameters. They are cut in buckets: each layer
    of a list of layers is one, all the rest of the model another.

    Parameters
    ----------
    model : model
        With ``loss_and_gradients``; the same on every rank. Its arrays are updated in place.
    build : callable
        ``build(pieces)`` returns the ``optimizer`` of this rank's part of each parameter, a flat
        view under the parameter's name: ``AdamW``, say, but not Muon, which needs whole matrices.
        It clips by the norm over all ranks, and gives what it has stepped to all.
    communicator : Communicator
    stage : {1, 2}
        1: the gradients are reduced after the backward pass (eq:zero-1). 2: those of a layer as
        soon as they are there (eq:zero-2): each layer in the model's lists becomes a
        :class:`ReducedLayer` as long as that takes.
    weight : callable, optional
        ``weight(*shard)`` returns the number of counted tokens of some sequences of a batch. Needed
        by :meth:`loss_and_gradients`, which cuts a batch into shards as :class:`DataParallel` does.

    Raises
    ------
    ValueError
        If the stage is another one, the parameters of a bucket differ in dtype, the numbers of
        one are not in the order of its axes, or ``build`` refuses the pieces, as Muon does.

    Source: Rajbhandari et al. 2020.
    """

    def __init__(
        self,
        model: Any,
        build: Callable[[dict[str, np.ndarray]], Optimizer],
        communicator: Communicator,
        stage: int = 1,
        weight: Callable | None = None,
    ):
        if stage not in (1, 2):
            raise ValueError(f"stage: expected 1 or 2, got {stage!r}")
        parameters = model.parameters()
        for name, array in parameters.items():
            if not array.flags.c_contiguous:
                raise ValueError(
                    f"{name}: expected numbers in the order of the axes, got the strides "
                    f"{array.strides} of shape {array.shape}"
                )
        self.model, self.communicator, self.weight = model, communicator, weight
        self.places: list = []  # list, place, layer, and what encloses it
        self.buckets: dict[str, Bucket] = {}  # by what its names begin with
        rest = dict(parameters)
        for prefix, layers, i in stacked(model):
            arrays = layers[i].parameters()
            self.buckets[prefix] = Bucket(arrays, communicator)
            for name in arrays:
                del rest[prefix + name]
            if stage > 1:
                outside = self.enclosed(layers[i], prefix)
                self.places.append((layers, i, layers[i], outside))
        self.late = [] if stage > 1 else list(self.buckets)  # after the backward pass
        if rest:
            self.buckets[""] = Bucket(rest, communicator)
            self.late.append("")
        self.optimizer = build(Pieces(self.cut(parameters), self.norm, self.publish))

    def enclosed(self, layer: Any, prefix: str) -> Layer:
        """Return what stands in for a layer that is a bucket of its own."""
        return ReducedLayer(layer, partial(self.reduce, prefix))

    def parameters(self) -> Pieces:
        """Return this rank's pieces, which the optimiser updates."""
        return Pieces(self.optimizer.parameters, self.norm, self.publish)

    def loss_and_gradients(
        self, *batch: Any, rng: np.random.Generator | None = None
    ) -> tuple[float, dict[str, np.ndarray]]:
        """Return the loss of a batch and this rank's pieces of its gradient.

        Every rank is called with the whole batch, and drops what one process drops.
        """
        if self.weight is None:
            raise ValueError(
                "weight: expected a function that counts the tokens, got None"
            )
        compute, ranks = self.model.loss_and_gradients, self.communicator
        every = shards(compute, self.weight, batch, ranks.size, rng)
        own = every[ranks.rank] if ranks.rank < len(every) else None
        if own and own.weight != 0:
            return self.of_shard(*own.arrays, weight=own.weight, **own.drawn)
        # Who has none works on another's, and counts it for nothing.
        other = next((shard for shard in every if shard.weight != 0), every[0])
        return self.of_shard(*other.arrays, weight=0, **other.drawn)

    def of_shard(
        self, *shard: Any, weight: float, **settings: Any
    ) -> tuple[float, dict[str, np.ndarray]]:
        """Return the loss of the whole batch and this rank's pieces of its gradient.

        Parameters
        ----------
        *shard, **settings
            What ``loss_and_gradients`` of the model gets on this rank.
        weight : float
            How many tokens are counted in the shard. 0: the shard takes no part, but has to be
            one that the model accepts.

        Raises
        ------
        ValueError
            If a weight is not a number or negative, or no rank has a counted token; as the model
            does.
        """
        check_real("weight", weight)
        weights = self.from_ranks("weight", weight)
        if min(weights) < 0 or not 0 < sum(weights) < math.inf:
            raise ValueError(
                f"weight: expected counted tokens on some rank, got {weights}"
            )
        self.share = weight / sum(weights)
        with self.enclosing():
            loss, grads = self.model.loss_and_gradients(*shard, **settings)
        for prefix in self.late:
            names = self.buckets[prefix].stand_ins
            pieces = self.reduce(prefix, {n: grads.pop(prefix + n) for n in names})
            grads |= {prefix + name: piece for name, piece in pieces.items()}
        return sum(self.from_ranks("loss", self.share * loss)), grads

    @contextmanager
    def enclosing(self) -> Iterator[None]:
        """Put what encloses the layers in their places, for as long as the context lasts."""
        for layers, i, _, outside in self.places:
            layers[i] = outside
        try:
            yield
        finally:
            for layers, i, layer, _ in self.places:
                layers[i] = layer

    def whole_model(self) -> AbstractContextManager:
        """Return a context in which the model has its parameters, to be measured or decoded."""
        return nullcontext()

    def reduce(
        self, prefix: str, grads: dict[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Return this rank's pieces of the weighted sum of a bucket's gradients."""
        return self.buckets[prefix].reduce_scatter(grads, self.share)

    def publish(self) -> None:
        """Copy the pieces of all ranks into the model."""
        parameters = self.model.parameters()
        for name, array in self.whole(self.optimizer.parameters):
            parameters[name][...] = array

    def norm(self, grads: dict[str, np.ndarray]) -> float:
        r"""Return the norm of the pieces of all ranks together (eq:global-norm-sharded).

        .. math:: \lVert g \rVert = \sqrt{\textstyle\sum_r \lVert g^{(r)} \rVert^2}

        Raises
        ------
        ValueError
            If ``grads`` is not a dict of arrays of real numbers; or if the norm is not finite,
            then on every rank.
        """
        check_real_gradients(grads)
        _, parts = chunks(grads)
        squares = self.from_ranks("norm", sum(map(sum_of_squares, parts)))
        norm = math.sqrt(sum(squares))
        if not math.isfinite(norm):
            raise ValueError(
                f"grads: expected a finite norm, got the squares {squares} of the ranks"
            )
        return norm

    def from_ranks(self, operation: str, number: float) -> list[float]:
        """Return one number of each rank."""
        mine = np.array([number], float)
        every = self.communicator.exchange([mine] * self.communicator.size, operation)
        return [float(other[0]) for other in every]

    def cut(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return this rank's pieces of arrays with the names of all parameters: flat views.

        Raises
        ------
        ValueError
            If they have not the names and the shapes of the parameters.
        """
        check_fit("arrays", arrays, self.model.parameters())
        return {
            prefix + name: arrays[prefix + name].reshape(-1)[span]
            for prefix, bucket in self.buckets.items()
            for name, span in bucket.spans.items()
        }

    def whole(self, pieces: dict[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
        """Yield whole arrays with their names, bucket by bucket."""
        for prefix, bucket in self.buckets.items():
            own = {name: pieces[prefix + name] for name in bucket.spans}
            for name, array in bucket.all_gather(own).items():
                yield prefix + name, array

    def bucket_of(self, name: str) -> tuple[Bucket, str]:
        """Return where a parameter is, and its name there."""
        for prefix, bucket in self.buckets.items():
            own = name.removeprefix(prefix)
            if prefix + own == name and own in bucket.stand_ins:
                return bucket, own
        raise ValueError(f"name: expected that of a parameter, got {name!r}")

    def join_array(self, name: str, piece: np.ndarray | None) -> np.ndarray | None:
        """Return the whole of a parameter, or of one of its averages, on rank 0; all take part.

        A rank without a part of it passes None.
        """
        bucket, own = self.bucket_of(name)
        like, ranks = bucket.stand_ins[own], self.communicator
        piece = np.empty(0, like.dtype) if piece is None else piece
        if ranks.rank > 0:
            ranks.swap("gather", {0: piece})
            return None
        others = ranks.swap("gather", {}, ranks.others)
        pieces = [piece, *(others[rank] for rank in ranks.others)]
        return np.concatenate(pieces).reshape(like.shape)

    def cut_array(self, name: str, array: np.ndarray) -> np.ndarray:
        """Return this rank's piece of a whole array, if it has one: a flat view."""
        bucket, own = self.bucket_of(name)
        return array.reshape(-1)[bucket.spans[own]]

    def gather(self) -> tuple[dict[str, np.ndarray], Optimizer]:
        """Return copies of the parameters and the optimiser as one process alone has them.

        All take part, and all get them: 12 bytes per parameter, with Adam. A run on disk takes
        :meth:`join_array` of one array after another instead.
        """
        alone = copy(self.optimizer)
        alone.parameters = dict(self.whole(self.optimizer.parameters))
        alone.averages = {
            average: dict(self.whole(pieces))
            for average, pieces in self.optimizer.averages.items()
        }
        return alone.parameters, alone

    def scatter(self, parameters: dict[str, np.ndarray], optimizer: Optimizer) -> None:
        """Go on from what :meth:`gather` returned, on this number of ranks or another.

        Raises
        ------
        ValueError
            If their names or shapes differ from those of the parameters, or the optimiser keeps
            other averages than this one. Nothing is changed then.
        """
        own = self.optimizer
        if optimizer.averages.keys() != own.averages.keys():
            raise ValueError(
                f"optimizer: expected one that remembers {summary(own.averages)}, "
                f"got {summary(optimizer.averages)}"
            )
        groups = {"parameters": parameters} | optimizer.averages
        pieces = {group: self.cut(arrays) for group, arrays in groups.items()}
        for group, arrays in pieces.items():
            for name, piece in arrays.items():
                check_reals(f"{group}: {name}", piece, ...)
        for group, targets in ({"parameters": own.parameters} | own.averages).items():
            for name, target in targets.items():
                target[...] = pieces[group][name]
        own.steps = optimizer.steps
        self.publish()


def stacked(layer: Any, prefix: str = "") -> Iterator[tuple[str, list, int]]:
    """Yield, for each layer in a list, what its names begin with, the list, and its place there."""
    for name, value in vars(layer).items():
        if isinstance(value, list):
            for i in range(len(value)):
                yield f"{prefix}{member(name, i)}.", value, i
        elif isinstance(value, Layer):
            yield from stacked(value, f"{prefix}{name}.")
