"""A pipeline: each rank has some layers of a model, and micro-batches go through them."""

import math
from collections.abc import Callable, Sequence
from copy import copy
from itertools import groupby
from typing import Any

import numpy as np

from transformer_core.distributed.data_parallel import cut
from transformer_core.distributed.schedules import Step, one_forward_one_backward
from transformer_core.foundation.checks import (
    as_list,
    check_array,
    check_booleans,
    check_names,
    check_positive_int,
    check_shape,
)
from transformer_core.foundation.names import join
from transformer_core.layers import TiedReadout
from transformer_core.models.bert import Bert, BertCache
from transformer_core.optim.clipping import checked_norm, own_norm
from transformer_core.optim.optimizer import Pieces
from transformer_core.ranks.communicator import Communicator


class Elsewhere:
    """A layer that another stage has: here everything goes on as it came."""

    table = None

    def forward(self, x, *others, rng=None):
        return x, None

    def backward(self, dy, cache):
        return dy, {}


class PipelineBert:
    r"""One stage of a Bert: its share of the layers, under the names that they have there.

    The first stage also has the embeddings, the last one the final normalisation and the output
    layer.
    Both have a tied table, and the sum of its gradients. Micro-batch j has the share
    :math:`n_j / n` of the counted tokens; the input of stage s is :math:`x^{(s)}_j`, its output
    :math:`x^{(s+1)}_j` (eq:pipeline-backward):

    .. math::
        \mathcal{L} = \sum_j \frac{n_j}{n} \, \mathcal{L}_j, \qquad
        \bar{x}^{(s)}_j = \left(\frac{\partial x^{(s+1)}_j}{\partial x^{(s)}_j}
        \right)^{\!\top} \bar{x}^{(s+1)}_j, \qquad
        \bar{\theta}_s = \sum_j \left(\frac{\partial x^{(s+1)}_j}{\partial \theta_s}
        \right)^{\!\top} \bar{x}^{(s+1)}_j

    What a stage drops of a micro-batch it draws with a generator of its own, seeded with both
    numbers. With ``recompute`` a stage keeps of a micro-batch its input alone, and runs its forward
    pass once more before the backward pass, with the same drops (eq:pipeline-recompute). A slot of
    time lasts as long as the longest pass in it.

    Parameters
    ----------
    model : Bert
        The same on all ranks. The stage takes its parts of it; they are not copied.
    communicator : Communicator
        Rank s is stage s.
    schedule : callable
        ``schedule(stages, batches)``: :func:`gpipe` or :func:`one_forward_one_backward`.
    micro_batches : int
        In how many :meth:`loss_and_gradients` cuts a batch.
    recompute : bool

    Raises
    ------
    ValueError
        If there are more ranks than layers.

    Source: Huang et al. 2019 (GPipe); Narayanan et al. 2019; Chen et al. 2016 (recomputation).
    """

    def __init__(
        self,
        model: Bert,
        communicator: Communicator,
        schedule: Callable[[int, int], list[Step]] = one_forward_one_backward,
        micro_batches: int = 1,
        recompute: bool = False,
    ):
        check_positive_int("micro_batches", micro_batches)
        rank, layers = communicator.rank, model.encoder.layers
        if communicator.size > len(layers):
            raise ValueError(
                f"communicator: expected at most {len(layers)} ranks, one a layer, "
                f"got {communicator.size}"
            )
        self.communicator, self.schedule = communicator, schedule
        self.micro_batches, self.recompute = micro_batches, recompute
        self.first, self.last = rank == 0, rank == communicator.size - 1
        self.tied = isinstance(model.readout, TiedReadout)
        mine = communicator.bounds(len(layers))[rank]
        kept: list = [Elsewhere() for _ in layers]
        kept[mine] = layers[mine]
        stage: Any = copy(model)
        stage.encoder = copy(model.encoder)
        stage.encoder.layers = kept
        if not self.first:
            stage.segments = stage.positions = stage.embedding_norm = None
            if not (self.last and self.tied):
                stage.tokens = Elsewhere()
        if not self.last:
            stage.transform = stage.readout = stage.encoder.final_norm = None
        self.stage = stage

    def parameters(self) -> Pieces:
        """Return the parameters of this stage, with the norm over all stages."""
        return Pieces(self.stage.parameters(), self.norm)

    def loss_and_gradients(
        self, *batch: np.ndarray | None, rng: np.random.Generator | None = None
    ) -> tuple[float, dict[str, np.ndarray]]:
        """Return the loss of a batch, and the gradients of this stage's parameters.

        Parameters
        ----------
        *batch, rng
            As for ``Bert.loss_and_gradients``, the same on every rank.
        """
        check_batch(batch)
        names = ["ids", "targets", "masked", "keep", "segment_ids"][: len(batch)]
        parts = cut(batch, self.micro_batches, names)
        return self.in_micro_batches([arrays for _, arrays in parts], rng)

    def in_micro_batches(
        self, batches: Sequence[tuple], rng: np.random.Generator | None = None
    ) -> tuple[float, dict[str, np.ndarray]]:
        """Return the loss of all micro-batches, and the gradients of this stage's parameters.

        Parameters
        ----------
        batches : sequence of tuple
            Micro-batches, the same on every rank: what ``Bert.loss_and_gradients`` is given, but
            for ``rng``. One without counted tokens is left out.
        rng : numpy.random.Generator, optional
            The same on every rank. Default: nothing is dropped.

        Returns
        -------
        loss : float
            The same on every rank.
        grads : dict of str to ndarray

        Raises
        ------
        ValueError
            If a micro-batch is not a tuple of three to five arrays, no token is counted, or as
            ``Bert.loss_and_gradients`` does.
        """
        batches = as_list("batches", batches)
        for batch in batches:
            check_batch(batch)
        batches = [batch for batch in batches if batch[2].any()]
        if not batches:
            raise ValueError("batches: expected at least one counted token, got none")
        counts = [int(np.count_nonzero(masked)) for _, _, masked, *_ in batches]
        shares = [count / sum(counts) for count in counts]  # n_j / n
        ranks = self.communicator
        last = ranks.size - 1
        seed = None if rng is None else [int(rng.integers(2**63)), ranks.rank]
        loss, kept = 0.0, {}  # by micro-batch, what the backward pass begins with
        grads: dict = {}
        came: dict = {}  # what was sent to this stage, by direction and micro-batch

        def forward_pass(x, j):
            drops = seed if seed is None else np.random.default_rng([*seed, j])
            return self.forward(x, *batches[j], rng=drops)

        steps = self.schedule(ranks.size, len(batches))
        for _, now in groupby(steps, lambda step: step.slot):
            outgoing, coming = {}, {}
            for _, stage, forward, j in now:
                to = stage + 1 if forward else stage - 1
                if to == ranks.rank:
                    coming[stage] = forward, j
                elif stage == ranks.rank and forward:
                    x = came.pop((True, j), None)
                    y, cache = forward_pass(x, j)
                    kept[j] = x if self.recompute else cache
                    del cache
                    if to <= last:
                        outgoing[to] = y
                    else:
                        loss += shares[j] * y
                elif stage == ranks.rank:
                    cache = kept.pop(j)
                    if self.recompute:
                        _, cache = forward_pass(cache, j)
                    dx, parts = self.backward(came.pop((False, j), shares[j]), cache)
                    del cache
                    if to >= 0:
                        outgoing[to] = dx
                    add(grads, parts)
            arrays = ranks.swap("pipeline", outgoing, coming)
            came |= {coming[stage]: array for stage, array in arrays.items()}
        ends = {0, last}
        if self.tied and last and ranks.rank in ends:
            (other,) = ends - {ranks.rank}
            table = {other: grads["tokens.table"]}
            add(grads, {"tokens.table": ranks.swap("tied", table, [other])[other]})
        return float(ranks.broadcast(np.array(loss, float), last)), grads

    def norm(self, grads: dict[str, np.ndarray]) -> float:
        """Return the norm of the gradient of all stages (eq:global-norm-sharded).

        A table that is on two stages counts once.

        Raises
        ------
        ValueError
            If ``grads`` is not a dict of arrays of real numbers; or if their norm is not finite,
            then on every rank.
        """
        check_names("grads", grads)
        counted = dict(grads)
        if self.tied and not self.first:
            counted.pop("tokens.table", None)
        square = np.array(own_norm(counted) ** 2)
        return checked_norm(math.sqrt(self.communicator.all_reduce(square)), grads)

    def forward(self, x, ids, targets, masked, keep=None, segment_ids=None, rng=None):
        """Return what the next stage is given, or the loss, and what backward needs."""
        input_cache = loss_cache = None
        read_out_caches: tuple = (None, None, None)
        if self.first:
            x, input_cache = self.stage.embed(ids, segment_ids, rng)
        y, encoder_cache = self.stage.encoder.forward(x, keep, rng)
        if self.last:
            check_shape("targets", targets, *ids.shape)
            logits, read_out_caches = self.stage.read_out(y, masked)
            y, loss_cache = self.stage.loss(logits, targets[masked])
        cache = BertCache(ids.shape, input_cache, encoder_cache, *read_out_caches)
        return y, (cache, loss_cache)

    def backward(self, dy, caches):
        """Return what the stage before is given, and this stage's gradients.

        That is eq:pipeline-backward.
        """
        cache, loss_cache = caches
        grads: dict = {}
        if self.last:
            dlogits = self.stage.loss_backward(dy, loss_cache)
            dy, dtable, parts = self.stage.read_out_backward(dlogits, cache)
            add(grads, join(parts))
            if self.tied:
                add(grads, {"tokens.table": dtable})
        dx, parts = self.stage.encoder.backward(dy, cache.encoder)
        add(grads, join({"encoder": parts}))
        if self.first:
            add(grads, join(self.stage.embed_backward(dx, cache.input)))
        return dx, grads


def check_batch(batch):
    """Raise ``ValueError`` unless a micro-batch says which of its tokens are masked."""
    if not isinstance(batch, tuple) or not 3 <= len(batch) <= 5:
        raise ValueError(
            "batches: expected tuples of ids, targets, masked and, where there are, keep and "
            f"segment_ids, got {batch!r:.80}"
        )
    ids, _, masked, *_ = batch
    check_array("ids", ids)
    check_booleans("masked", masked, *ids.shape)


def add(total, parts):
    """Add gradients to those that are already there, in place, under their names."""
    for name, grad in parts.items():
        if name in total:
            total[name] += grad
        else:
            total[name] = grad
