"""The exhibits of the museum, each trained from five starts."""

from contextlib import nullcontext

import numpy as np

from transformer_core.layers import LayerSpec
from transformer_core.models import EncoderDecoder, StackSpec
from transformer_core.ops import padding_keep, sinusoidal_positions
from transformer_core.optim import Adam
from transformer_core.tasks.reconstruction import Reconstructor
from transformer_core.training import train
from transformer_practice.engine.planting import planted
from transformer_practice.mistakes import MUTANTS

SEEDS = range(5)
STEPS = 300
V, LONGEST, START, END = 12, 6, 1, 2  # of the rows that are written backwards

PREVIOUS = [  # the exhibits that are trained on the previous token
    "layer-norm-scale-term-alone",
    "layer-norm-gamma-outside",
    "softmax-no-coupling",
    "residual-skip-lost",
    "residual-branch-lost",
    "linear-last-sequence-alone",
    "linear-batch-and-time-scrambled",
    "attention-input-without-projections",
    "optimizer-default-for-missing-gradients",
    "heads-joined-by-reshape",
    "adam-no-bias-correction",
    "attention-scale-forgotten-backward",
]
REVERSAL = [  # and on rows backwards
    "embedding-repeats-lost",
    "encoder-decoder-read-out-term-forgotten",
    "heads-joined-by-reshape",
    "decoder-target-not-shifted",
    "decoder-sees-the-future",
]
SAME = ["softmax-no-coupling"]  # and on the same token


def runs():
    """The settings of every run; no name: the right gradients."""
    tasks = {"previous": PREVIOUS, "reversal": REVERSAL, "same": SAME, "one batch": PREVIOUS}
    for task, names in tasks.items():
        for name in (None, *names):
            for seed in SEEDS:
                yield {"task": task, "name": name, "seed": seed}


def run(task, name, seed):
    """One training under a mistake: its smoothed losses, and what it ends at."""
    right = None
    if task == "reversal":
        losses, right = reversal(name, seed)
    else:
        losses = token(name, seed, shift=0 if task == "same" else 1, fresh=task != "one batch")
    return {
        "first": float(losses[0]),
        "end": float(smooth(losses)[-2:].mean()),
        "rows right": right,
        "losses": [float(f"{loss:.4g}") for loss in smooth(losses)],
    }


def smooth(losses):
    """The geometric mean of every ten losses."""
    return np.exp(np.log(losses).reshape(-1, 10).mean(axis=1))


def planted_or_not(name):
    return planted(MUTANTS[name]) if name else nullcontext()


def token(name=None, seed=0, shift=1, fresh=True, parameters=None):
    """Train an encoder to give back a token's embedding, under a mistake; return its losses.

    With shift 1 it is the previous token, with shift 0 the same. Every batch is fresh, or the
    first is repeated. The trained parameters are put into a dict.
    """
    rng = np.random.default_rng(seed)
    model = Reconstructor(LayerSpec(32, 2, 64, "post"), 2, rng)
    table = rng.normal(size=(16, 32)).astype(np.float32)
    positions = sinusoidal_positions(8, 32, np.float32)
    renamed = name == "optimizer-default-for-missing-gradients"

    def sample():
        tokens = rng.integers(16, size=(16, 8))
        return table[tokens] + positions, table[np.roll(tokens, shift, axis=1)]

    def loss_and_gradients(inputs, targets, rng):
        loss, grads = model.loss_and_gradients(inputs, targets, rng=rng)
        if renamed:
            grads = {n.replace("layer_", "layer"): grad for n, grad in grads.items()}
        return loss, grads

    batches = (sample() for _ in range(STEPS)) if fresh else [sample()] * STEPS
    with planted_or_not(name):
        history = train(loss_and_gradients, Adam(model.parameters(), 3e-3), batches, STEPS)
    if parameters is not None:
        parameters.update(model.parameters())
    return np.array([record["loss"] for record in history])


def rows_and_their_reversals(rng, batch):
    """Rows of tokens 3 to V - 1 with padding 0, and the same backwards between START and END."""
    lengths = rng.integers(2, LONGEST + 1, batch)
    source = np.zeros((batch, LONGEST), int)
    target = np.zeros((batch, LONGEST + 2), int)
    for b, n in enumerate(lengths):
        source[b, :n] = rng.integers(3, V, n)
        target[b, : n + 2] = [START, *source[b, :n][::-1], END]
    return source, lengths, target, lengths + 2


def reversal(name=None, seed=0):
    """Train under a mistake; return the losses and the share of rows that come out right."""
    rng = np.random.default_rng(seed)
    model = EncoderDecoder(
        LayerSpec(32, 2, 64, "pre"),
        source=StackSpec(V, LONGEST, layers=1),
        target=StackSpec(V, LONGEST + 1, layers=1),
        rng=rng,
    )
    batches = (rows_and_their_reversals(rng, 32) for _ in range(STEPS))
    with planted_or_not(name):
        history = train(model.loss_and_gradients, Adam(model.parameters(), 5e-3), batches, STEPS)
        source, lengths, target, target_lengths = rows_and_their_reversals(rng, 200)
        keep = padding_keep(lengths, LONGEST)
        written = np.full((200, 1), START)
        for _ in range(LONGEST + 1):
            logits, _ = model.forward(source, written, keep)
            best = logits[:, -1].argmax(axis=-1)
            written = np.concatenate([written, best[:, np.newaxis]], axis=1)
    counted = np.arange(LONGEST + 2) < target_lengths[:, np.newaxis]
    right = ((written == target) | ~counted).all(axis=1).mean()
    return np.array([record["loss"] for record in history]), float(right)
