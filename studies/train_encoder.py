"""The encoder of the reconstruction task, without output layer, attention or a falling rate."""

from itertools import repeat

import numpy as np

from transformer_core.layers import LayerSpec
from transformer_core.ops import mean_squared_error
from transformer_core.optim import Adam, warmup_stable_decay
from transformer_core.tasks.reconstruction import (
    Reconstruction,
    Reconstructor,
    layer_norm_floor,
    predict_mean,
    predict_zero,
)
from transformer_core.training import train

SEEDS = range(5)
EPOCHS = 500


def runs():
    """The settings of every run."""
    for seed in SEEDS:
        yield {"kind": "two_arrays", "seed": seed}
        yield {"kind": "encoder", "placement": "post", "readout": False, "seed": seed}
        for placement in ("pre", "post"):
            for change in ({}, {"alone": True}, {"decay": 0}):
                settings = {"kind": "encoder", "placement": placement, "seed": seed}
                yield settings | change


def run(kind, **settings):
    """One training: of ``two_arrays`` that are left, or of the whole ``encoder``."""
    return {"two_arrays": two_arrays, "encoder": encoder}[kind](**settings)


def embeddings_and_batch(seed, std=1.0):
    """Generator, training batch of 32 sequences, and 256 sequences that are never trained on."""
    rng = np.random.default_rng(seed)
    task = Reconstruction(rng, std=std)
    batch = task.sample(32, rng)
    unseen = task.sample(256, rng)
    return rng, batch, unseen


def spec(placement):
    return LayerSpec(width=64, attention=4, hidden_width=256, placement=placement)


def two_arrays(seed, std=0.02):
    """Train scale and shift of a final LayerNorm, and nothing else."""
    rng, batch, _ = embeddings_and_batch(seed, std)
    model = Reconstructor(spec("post"), 2, rng, final_norm=True, readout=False)
    trained = {
        name: array
        for name, array in model.parameters().items()
        if name.startswith("encoder.final_norm")
    }

    def loss_and_gradients(inputs, targets, rng):
        loss, grads = model.loss_and_gradients(inputs, targets, rng=rng)
        return loss, {name: grads[name] for name in trained}

    history = train(loss_and_gradients, Adam(trained, 3e-4), repeat(batch), EPOCHS)
    losses = [record["loss"] for record in history]
    return {
        "zero": predict_zero(batch[1]),
        "losses": rounded([losses[0], *losses[9::10]]),
        "falls": bool((np.diff(losses) < 0).all()),
    }


def encoder(placement, seed, readout=True, alone=False, decay=100, epochs=EPOCHS, measure=None):
    """Train an encoder of two layers, and look at unseen sequences every ten epochs.

    Without an output layer it ends in a LayerNorm, whose floor is computed every 50 epochs.
    ``alone``: each position attends to itself only. ``decay``: epochs at the end over which the
    learning rate falls to 0. ``measure`` is given the trained model and both sets of data, and
    what it returns is kept.
    """
    rng, batch, unseen = embeddings_and_batch(seed)
    model = Reconstructor(spec(placement), 2, rng, not readout, readout)
    keep = np.eye(16, dtype=bool) if alone else None
    floors, unseen_losses = [], []

    def error(inputs, targets):
        return float(mean_squared_error(model.forward(inputs, keep)[0], targets)[0])

    def look(history):
        step = history[-1]["step"]
        if step % 10 == 0:
            unseen_losses.append(error(*unseen))
        if not readout and step % 50 == 0:
            norm = model.encoder.final_norm
            floors.append(layer_norm_floor(batch[1], norm.gamma, norm.beta))

    history = train(
        lambda *batch, rng: model.loss_and_gradients(*batch, keep, rng=rng),
        Adam(model.parameters()),
        repeat(batch),
        epochs,
        schedule=lambda step: warmup_stable_decay(step, EPOCHS, 3e-3, decay=decay),
        after_step=look,
    )
    losses = [record["loss"] for record in history]
    found = {
        "losses": rounded([losses[0], *losses[9::10]]),
        "last": rounded(losses[-100:]),
        "unseen_losses": rounded(unseen_losses),
        "floors": rounded(floors, 6),
        "train": error(*batch),
        "unseen": error(*unseen),
    }
    if not readout:
        _, cache = model.forward(batch[0])
        inv_std = cache.encoder.final_norm.inv_std.astype(np.float64)
        found["shortest"] = float(np.sqrt(1 - 1e-5 * inv_std**2).min())
    return (found, measure(model, batch, unseen)) if measure else found


def baselines(seed):
    """What models without an encoder score, on the training batch and on unseen sequences."""
    _, batch, unseen = embeddings_and_batch(seed)
    inputs, targets, unseen_inputs, unseen_targets = (
        array.reshape(-1, array.shape[-1]) for array in (*batch, *unseen)
    )
    best, *_ = np.linalg.lstsq(with_one(inputs), targets, rcond=None)

    def linear(inputs, targets):
        return float(np.mean((with_one(inputs) @ best - targets) ** 2))

    one, zero = np.ones(targets.shape[-1]), np.zeros(targets.shape[-1])
    return {
        "predict zero": (predict_zero(targets), predict_zero(unseen_targets)),
        "predict mean": (predict_mean(targets), predict_mean(unseen_targets)),
        "LayerNorm floor": (
            layer_norm_floor(targets, one, zero),
            layer_norm_floor(unseen_targets, one, zero),
        ),
        "best linear map": (linear(inputs, targets), linear(unseen_inputs, unseen_targets)),
    }


def with_one(rows):
    return np.column_stack([rows, np.ones(len(rows))])


def rounded(numbers, digits=5):
    return [float(f"{number:.{digits}g}") for number in numbers]
