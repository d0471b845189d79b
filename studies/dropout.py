"""Small encoders with and without dropout, on little data and on plenty."""

from itertools import repeat

import numpy as np

from transformer_core.layers import LayerSpec
from transformer_core.ops import mean_squared_error
from transformer_core.optim import Adam, warmup_stable_decay
from transformer_core.tasks.reconstruction import Reconstruction, Reconstructor, predict_zero
from transformer_core.training import train

SEEDS = range(5)
RATES = 0.0, 0.1, 0.3
SIZES = 4, 8, 16, 32  # training sequences
STEPS, LEARNING_RATE = 300, 3e-3
LONGER = 900


def runs():
    """The settings of every run."""
    for seed in SEEDS:
        for size in SIZES:
            for rate in RATES:
                yield {"rate": rate, "size": size, "seed": seed}
        for size in (4, 32):
            for rate in RATES:
                yield {"rate": rate, "size": size, "seed": seed, "steps": LONGER, "decay": True}
        for learning_rate in (1e-3, 1e-2):
            for rate in RATES:
                yield {"rate": rate, "size": 32, "seed": seed, "learning_rate": learning_rate}
        for rate in (0.0, 0.1):  # which of the two it is: the decay, or the steps
            yield {"rate": rate, "size": 32, "seed": seed, "decay": True}
            yield {"rate": rate, "size": 32, "seed": seed, "steps": LONGER}


def run(**settings):
    """One training on one batch, measured on it and on 256 sequences that it never sees."""
    return train_encoder(**settings)[1]


def train_encoder(
    rate, size, seed, steps=STEPS, learning_rate=LEARNING_RATE, decay=False, masks=None
):
    """Return the model, what was measured, the history and the unseen sequences."""
    rng = np.random.default_rng(seed)
    task = Reconstruction(rng, vocabulary=33, length=8, width=32)
    batch, unseen = task.sample(size, rng), task.sample(256, rng)
    model = Reconstructor(LayerSpec(32, 4, 128, "pre", dropout=rate), 2, rng)
    masks = masks or repeat(np.random.default_rng(seed + 100))
    curve = []

    def error(inputs, targets):
        return float(mean_squared_error(model.forward(inputs)[0], targets)[0])

    def measure(history):
        if history[-1]["step"] % (steps // 15) == 0:
            curve.append(round(error(*unseen), 6))

    history = train(
        lambda inputs, targets, masks, rng: model.loss_and_gradients(inputs, targets, rng=masks),
        Adam(model.parameters()),
        ((*batch, rng) for rng in masks),
        steps,
        schedule=lambda step: warmup_stable_decay(
            step, steps, learning_rate, decay=steps if decay else 0
        ),
        after_step=measure,
    )
    found = {
        "zero": round(float(predict_zero(unseen[1])), 6),
        "training": round(error(*batch), 6),
        "unseen": round(error(*unseen), 6),
        "curve": curve,
        "losses": [round(float(r["loss"]), 6) for r in history[4::5]],
    }
    return model, found, history, unseen
