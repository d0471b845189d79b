"""A small Bert and micro-batches for its pipeline."""

import weakref

import numpy as np
from helpers.witnesses import arrays_in

from transformer_core.distributed import PipelineBert
from transformer_core.layers import AttentionSpec, LayerSpec
from transformer_core.models import Bert, StackSpec

VOCABULARY, LENGTH, WIDTH, LAYERS = 11, 7, 6, 4
COUNTS = [5, 1, 3, 0]  # of masked tokens, in micro-batches of 3, 1, 2 and 2 sequences
SIZES = [3, 1, 2, 2]


def build(tied=True, dropout=0.0):
    """A Bert at a generic point: nothing in it is 0 or 1."""
    rng = np.random.default_rng(0)
    spec = LayerSpec(WIDTH, AttentionSpec(2), 9, "pre", dropout=dropout, dtype=np.float64)
    stack = StackSpec(VOCABULARY, LENGTH, LAYERS)
    model = Bert(spec, stack, rng, tied, segments=2, embedding_norm=True)
    for array in model.parameters().values():
        array[:] = rng.normal(size=array.shape) / 2
    return model


def micro_batches():
    """Ids with repetitions, padded rows, and unequal numbers of counted tokens, even none."""
    rng = np.random.default_rng(1)
    batches = []
    for size, count in zip(SIZES, COUNTS, strict=True):
        shape = size, LENGTH
        masked = np.zeros(shape, bool)
        masked.flat[rng.choice(size * LENGTH, count, replace=False)] = True
        keep = (np.arange(LENGTH) < rng.integers(4, LENGTH + 1, size)[:, None])[:, None, None]
        ids, targets = rng.integers(VOCABULARY, size=(2, *shape))
        batches.append((ids, targets, masked, keep, rng.integers(2, size=shape)))
    return batches


def whole(model):
    """The loss and the gradients of one process with one batch of all sequences."""
    columns = zip(*micro_batches(), strict=True)
    return model.loss_and_gradients(*map(np.concatenate, columns))


class InStages:
    """A generator that draws for the stages in turn, as each of them does for a micro-batch.

    A stage's layers have three calls each, and the first stage has one more for the embeddings.
    """

    def __init__(self, seed, stages, j):
        edges = [LAYERS * stage // stages for stage in range(stages + 1)]
        self.calls = [
            rng
            for stage in range(stages)
            for rng in [np.random.default_rng([seed, stage, j])]
            for _ in range(3 * (edges[stage + 1] - edges[stage]) + (stage == 0))
        ]

    def random(self, *how, **named):
        return self.calls.pop(0).random(*how, **named)


def whole_with_drops(model, seed, stages):
    """The loss and the gradients of one process, micro-batch by micro-batch, dropping alike."""
    counted = [batch for batch in micro_batches() if batch[2].any()]
    total, loss, grads = sum(COUNTS), 0.0, {}
    for j, batch in enumerate(counted):
        share = batch[2].sum() / total
        of_batch, parts = model.loss_and_gradients(*batch, rng=InStages(seed, stages, j))
        loss += share * of_batch
        grads = {n: grads.get(n, 0) + share * g for n, g in parts.items()}
    return loss, grads


class Watched(PipelineBert):
    """A stage that counts the bytes of all arrays that its forward passes have made or been given.

    ``most`` is the largest number of them that were needed at once; the parameters do not count.
    """

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.most, self.alive = 0, {id(array): 0 for array in self.parameters().values()}

    def forward(self, x, *batch, **others):
        given = {id(owner(array)) for array in batch if array is not None}
        y, cache = super().forward(x, *batch, **others)
        for array in map(owner, arrays_in((x, cache))):
            if id(array) not in self.alive | dict.fromkeys(given):
                self.alive[id(array)] = array.nbytes
                weakref.finalize(array, self.alive.pop, id(array))
        self.most = max(self.most, sum(self.alive.values()))
        return y, cache


def owner(array):
    while array.base is not None:
        array = array.base
    return array


def gradients_and_sent(c):
    loss, grads = PipelineBert(build(), c).in_micro_batches(micro_batches())
    traffic = {f"sent {n}": np.array(t.bytes) for n, t in c.sent.items()}
    return grads | traffic | {"loss": np.array(loss)}
