"""A GPT of today's blocks that ranks can share, alone and cut; a script that trains it on MPI."""

import sys
from pathlib import Path

import numpy as np
from helpers.witnesses import randomise

from transformer_core.distributed import TensorParallelGpt
from transformer_core.layers import AttentionSpec, LayerSpec, NormSpec
from transformer_core.models import Gpt, StackSpec
from transformer_core.optim import AdamW
from transformer_core.ranks import guarded, world

B, T, D, H, K, F, V, L = 3, 12, 10, 12, 4, 17, 13, 2  # 2, 3 and 4 divide neither F nor V


def gpt(key_heads=1, tied=True, transform="qk_norm_rotary", dropout=0.0, bias=True):
    """Build the model at a generic point: the same one at every call."""
    attention = AttentionSpec(H, K, 3, bias=bias, key_heads=key_heads, transform=transform)
    norm = NormSpec("rms_norm")
    spec = LayerSpec(D, attention, F, "pre", norm, "swiglu", dropout, "float64")
    model = Gpt(spec, StackSpec(V, T, L), np.random.default_rng(1), tied)
    return randomise(model, np.random.default_rng(2))


def batch(rng):
    """Draw ids and targets, with repetitions."""
    return tuple(rng.integers(V, size=(2, B, T)))


def train(model, steps=range(4), optimizer=None):
    """Take some clipped steps, each with its own batch and drops; return the losses."""
    optimizer = optimizer or AdamW(model.parameters, 1e-2, eps=1e-6)
    losses = []
    for step in steps:
        rng = np.random.default_rng(step)
        loss, grads = model.loss_and_gradients(*batch(rng), rng=rng)
        optimizer.step(grads, max_norm=0.5)
        losses.append(loss)
    return losses


def train_cut(communicator, sequence=False, **settings):
    """Train a cut model; return the losses and the whole parameters."""
    model = TensorParallelGpt(gpt(**settings), communicator, sequence)
    losses = train(model)
    return {"losses": np.array(losses)} | model.gather(model.parameters())


if __name__ == "__main__":
    with guarded(world()) as communicator:
        arrays = train_cut(communicator)
        sent = {f"sent {n}": np.array(t.bytes) for n, t in communicator.sent.items()}
        np.savez(Path(sys.argv[1], f"{communicator.rank}.npz"), **arrays, **sent)
