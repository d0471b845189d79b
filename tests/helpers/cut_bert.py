"""A BERT that 1, 2, 3 or 4 ranks can share, alone and cut."""

from functools import partial

import numpy as np
from helpers import cut_models
from helpers.witnesses import randomise

from transformer_core.distributed import TensorParallelBert
from transformer_core.layers import LayerSpec
from transformer_core.models import Bert, StackSpec
from transformer_core.ranks import grid

B, T, D, H, F, V, L = 3, 12, 24, 12, 17, 13, 2  # 2, 3 and 4 divide neither F nor V


def bert(placement="post", tied=True, dropout=0.0, dtype="float64"):
    """Build the model at a generic point: the same one at every call."""
    spec = LayerSpec(D, H, F, placement, feed_forward="gelu_tanh", dropout=dropout, dtype=dtype)
    rng = np.random.default_rng(1)
    model = Bert(spec, StackSpec(V, T, L), rng, tied, segments=2, embedding_norm=True)
    return randomise(model, np.random.default_rng(2))


def batch(rng, batch=B):
    """Draw ids, targets, masked, keep and segments: each head has another mask."""
    ids, targets = rng.integers(V, size=(2, batch, T))
    masked = rng.random((batch, T)) < 0.3
    masked[:, 0] = True
    keep = rng.random((batch, H, T, T)) < 0.7
    return ids, targets, masked, keep, rng.integers(2, size=(batch, T))


Training = partial(cut_models.Training, batch=batch)


def train_cut(communicator, sequence, **settings):
    """Train a cut model, and return the losses and the whole parameters."""
    model = TensorParallelBert(bert(**settings), communicator, sequence)
    losses = Training(model).run(range(5))
    return {"losses": np.array(losses)} | model.gather(model.parameters())


def trainings(c):
    """Train on all ranks in both ways, and on pairs of them."""
    row, _ = grid(c, 2)
    ways = {"tensor": (c, False), "sequence": (c, True), "pair": (row, False)}
    return {
        f"{way} {name}": array
        for way, given in ways.items()
        for name, array in train_cut(*given, dropout=0.2).items()
    }
