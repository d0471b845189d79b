"""A GPT of today's blocks that ranks can share, alone and cut."""

from functools import partial

import numpy as np
from helpers import cut_models
from helpers.witnesses import randomise

from transformer_core.distributed import TensorParallelGpt
from transformer_core.layers import AttentionSpec, LayerSpec, NormSpec
from transformer_core.models import Gpt, StackSpec

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


Training = partial(cut_models.Training, batch=batch)


def train_cut(communicator, sequence=False, **settings):
    """Train a cut model; return the losses and the whole parameters."""
    model = TensorParallelGpt(gpt(**settings), communicator, sequence)
    losses = Training(model).run(range(3))
    return {"losses": np.array(losses)} | model.gather(model.parameters())


def trained_and_sent(communicator):
    """Return what :func:`train_cut` returns, and the bytes that were sent."""
    arrays = train_cut(communicator)
    return arrays | {f"sent {n}": np.array(t.bytes) for n, t in communicator.sent.items()}
