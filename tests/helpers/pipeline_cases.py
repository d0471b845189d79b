"""A small Bert and micro-batches for its pipeline; run as a script, on MPI, with a folder."""

import sys
from pathlib import Path

import numpy as np

from transformer_core.distributed import PipelineBert
from transformer_core.layers import AttentionSpec, LayerSpec
from transformer_core.models import Bert, StackSpec
from transformer_core.ranks import guarded, world

VOCABULARY, LENGTH, WIDTH, LAYERS = 11, 7, 6, 4
COUNTS = [5, 1, 3, 0]  # of masked tokens, in micro-batches of 3, 1, 2 and 2 sequences
SIZES = [3, 1, 2, 2]


def build(tied=True):
    """A Bert at a generic point: nothing in it is 0 or 1."""
    rng = np.random.default_rng(0)
    spec = LayerSpec(WIDTH, AttentionSpec(2), 9, placement="pre", dtype=np.float64)
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


def work(c):
    loss, grads = PipelineBert(build(), c).in_micro_batches(micro_batches())
    traffic = {f"sent {n}": np.array(t.bytes) for n, t in c.sent.items()}
    return grads | traffic | {"loss": np.array(loss)}


if __name__ == "__main__":
    with guarded(world()) as communicator:
        folder = Path(sys.argv[1])
        np.savez(folder / f"{communicator.rank}.npz", **work(communicator))
