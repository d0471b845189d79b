"""The training of the chapter *Training the encoder*."""

from itertools import repeat
from pathlib import Path

import numpy as np

from transformer_core.models import Encoder
from transformer_core.ops import mean_squared_error
from transformer_core.optim import Adam, warmup_stable_decay
from transformer_core.tasks.reconstruction.data import Reconstruction, predict_zero
from transformer_core.training import Recipe, Run, Training, load_settings

DEFAULTS = {
    "norm": "pre",
    "layers": 2,
    "width": 64,
    "heads": 4,
    "hidden_width": 256,
    "epochs": 500,
    "batch": 32,
    "learning_rate": 3e-3,
    "beta2": 0.999,
    "max_norm": None,
    "seed": 0,
    "checkpoint_every": 50,
}
UNSEEN_SEQUENCES = 256


def build(settings: dict, rng: np.random.Generator) -> Encoder:
    """Build what the settings of a run describe, untrained."""
    sizes = [settings[name] for name in ("layers", "width", "heads", "hidden_width")]
    return Encoder(
        *sizes, norm=settings["norm"], final_norm=False, readout=True, rng=rng
    )


def training(settings: dict, files: dict[str, bytes]) -> Training:
    rng = np.random.default_rng(settings["seed"])
    task = Reconstruction(rng, width=settings["width"])
    batch = task.sample(settings["batch"], rng)
    unseen = task.sample(UNSEEN_SEQUENCES, rng)
    encoder = build(settings, rng)
    peak = settings["learning_rate"]

    def schedule(epoch, epochs):
        return warmup_stable_decay(epoch, epochs, peak, decay=max(1, epochs // 5))

    def error(inputs, targets):
        loss, _ = mean_squared_error(encoder.forward(inputs)[0], targets)
        return f"{loss:.5f}"

    def measures():
        yield "MSE on the training batch", error(*batch)
        yield "MSE on unseen sequences", error(*unseen)
        yield "MSE of predicting zero", f"{predict_zero(unseen[1]):.5f}"

    return Training(
        encoder.loss_and_gradients,
        Adam(encoder.parameters(), peak, beta2=settings["beta2"]),
        lambda first: repeat(batch),
        schedule,
        measures,
    )


RECIPE = Recipe("encoder", DEFAULTS, ("epochs",), training)


def load(folder: str | Path) -> Encoder:
    """Return the encoder that ``train encoder`` has trained into a folder.

    Raises
    ------
    ValueError
        If it has not, or the run is damaged.
    """
    run = Run(folder)
    encoder = build(load_settings(run, RECIPE), np.random.default_rng(0))
    run.load_checkpoint(encoder.parameters())
    return encoder
