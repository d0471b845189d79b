"""Small encoders trained with different optimisers, learning rates and schedules."""

from itertools import repeat
from math import cos, pi

import numpy as np

from transformer_core.layers import LayerSpec
from transformer_core.ops import mean_squared_error
from transformer_core.optim import SGD, Adam, AdamW, Muon, Together, warmup_stable_decay
from transformer_core.tasks.reconstruction import Reconstruction, Reconstructor, predict_mean
from transformer_core.training import train

SEEDS = range(5)
STEPS = 200
SPEC = LayerSpec(32, 4, 64, "pre")

# five learning rates for each optimiser, a factor of about 3 apart
RATES = {
    "SGD": (0.1, 0.3, 1.0, 3.0, 10.0),
    "momentum": (0.03, 0.1, 0.3, 1.0, 3.0),
    "sign": (3e-4, 1e-3, 3e-3, 1e-2, 3e-2),
    "Adam": (1e-3, 3e-3, 1e-2, 3e-2, 0.1),
    "AdamW": (1e-3, 3e-3, 1e-2, 3e-2, 0.1),
    "Muon": (3e-3, 1e-2, 3e-2, 0.1, 0.3),
    "AdamW inside": (3e-3, 1e-2, 3e-2, 0.1, 0.3),
}
PEAKS = 0.01, 0.03, 0.1
WARMUP = 50
LENGTHS = 100, 300


def with_muon(parameters, learning_rate, rest=0.03, inside=Muon):
    """Muon for the matrices of the hidden layers, AdamW for all else."""
    hidden = {
        name: array
        for name, array in parameters.items()
        if array.ndim == 2 and name.startswith("encoder.")
    }
    others = {name: array for name, array in parameters.items() if name not in hidden}
    return Together(parameters, inside(hidden, learning_rate), AdamW(others, rest))


OPTIMIZERS = {
    "SGD": SGD,
    "momentum": lambda parameters, rate: SGD(parameters, rate, momentum=0.9),
    "sign": lambda parameters, rate: Adam(parameters, rate, beta1=0, beta2=0),
    "Adam": Adam,
    "AdamW": lambda parameters, rate: AdamW(parameters, rate, weight_decay=0.1),
    "Muon": with_muon,
    "AdamW inside": lambda parameters, rate: with_muon(parameters, rate, inside=AdamW),
}


# The learning rate of a step, counted from 1, in units of the peak. A dip has the steps of the
# warm-up, later.
SCHEDULES = {
    "constant": lambda step, steps: 1.0,
    "warm-up": lambda step, steps: min(1, step / WARMUP),
    "dip": lambda step, steps: (
        (step - 2 * WARMUP + 1) / WARMUP if 2 * WARMUP <= step < 3 * WARMUP else 1.0
    ),
    "warm-up, constant": lambda step, steps: warmup_stable_decay(step, steps, 1, 20),
    "linear": lambda step, steps: warmup_stable_decay(step, steps, 1, 20, steps - 20),
    "cosine": lambda step, steps: (
        step / 20 if step < 20 else (1 + cos(pi * (step - 20) / (steps + 1 - 20))) / 2
    ),
    "plateau, decay": lambda step, steps: warmup_stable_decay(step, steps, 1, 20, steps // 5),
}


def runs():
    """The settings of every run."""
    for seed in SEEDS:
        for name, rates in RATES.items():
            for rate in rates:
                yield {"kind": "race", "optimizer": name, "rate": rate, "seed": seed}
        sizes = [(STEPS, 16, list(SCHEDULES)[:3])]
        sizes += [(steps, 4, list(SCHEDULES)[3:]) for steps in LENGTHS]
        for steps, sequences, names in sizes:
            size = {"kind": "schedule", "steps": steps, "sequences": sequences, "seed": seed}
            for peak in PEAKS:
                yield from (size | {"schedule": name, "peak": peak} for name in names)


def run(kind, **settings):
    """One training: ``race`` on one batch, ``schedule`` on fresh batches."""
    return {"race": race, "schedule": scheduled}[kind](**settings)


def fresh_encoder(seed):
    """A small encoder, its task, 128 sequences to measure it on, and the generator."""
    rng = np.random.default_rng(seed)
    task = Reconstruction(rng, length=8, width=32)
    unseen = task.sample(128, rng)
    return Reconstructor(SPEC, 1, rng, final_norm=True), task, unseen, rng


def error(model, batch):
    return float(mean_squared_error(model.forward(batch[0])[0], batch[1])[0])


def follow(model, optimizer, batches, steps, schedule=None):
    """The losses of a training; after an overflow they are infinite."""
    losses = []
    try:
        train(
            model.loss_and_gradients,
            optimizer,
            batches,
            steps,
            schedule=schedule,
            after_step=lambda history: losses.append(float(history[-1]["loss"])),
        )
    except ValueError:
        losses += [float("inf")] * (steps - len(losses))
    return losses


def race(optimizer, rate, seed, steps=STEPS):
    """200 steps on one batch of 32 sequences, at a constant rate."""
    model, task, unseen, rng = fresh_encoder(seed)
    batch = task.sample(32, rng)
    stepping = OPTIMIZERS[optimizer](model.parameters(), rate)
    losses = follow(model, stepping, repeat(batch), steps)
    finished = np.isfinite(losses[-1])
    return {
        "mean": round(float(predict_mean(batch[1])), 5),
        "losses": [round(loss, 5) if np.isfinite(loss) else None for loss in losses[4::5]],
        "unseen": round(error(model, unseen), 5) if finished else None,
    }


def scheduled(schedule, peak, steps, sequences, seed):
    """Adam on fresh batches; the error is that on sequences which it never sees."""
    model, task, unseen, rng = fresh_encoder(seed)
    batches = (task.sample(sequences, rng) for _ in repeat(None))
    share = SCHEDULES[schedule]
    losses = follow(
        model, Adam(model.parameters()), batches, steps, lambda step: peak * share(step, steps)
    )
    return {
        "losses": [round(loss, 5) for loss in losses[4::5]],
        "unseen": round(error(model, unseen), 5),
    }
