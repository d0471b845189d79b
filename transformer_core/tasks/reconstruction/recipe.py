"""The training of the chapter *Training the encoder*."""

from dataclasses import asdict
from functools import partial
from itertools import repeat
from pathlib import Path

import numpy as np

from transformer_core.distributed.over_ranks import over_ranks
from transformer_core.layers import LayerSpec
from transformer_core.ops import mean_squared_error
from transformer_core.optim import Adam, warmup_stable_decay
from transformer_core.ranks import Communicator
from transformer_core.tasks.reconstruction.data import Reconstruction, predict_zero
from transformer_core.tasks.reconstruction.model import Reconstructor
from transformer_core.training import Recipe, Run, Training, load_settings

DEFAULTS = {
    "spec": asdict(LayerSpec(64, 4, 256, "pre")),
    "layers": 2,
    "epochs": 500,
    "batch": 32,
    "learning_rate": 3e-3,
    "beta2": 0.999,
    "max_norm": None,
    "seed": 0,
    "checkpoint_every": 50,
}
UNSEEN_SEQUENCES = 256


def build(settings: dict, rng: np.random.Generator) -> Reconstructor:
    """Build what the settings of a run describe, untrained."""
    return Reconstructor(
        LayerSpec.from_settings(settings["spec"]), settings["layers"], rng
    )


def training(
    settings: dict, files: dict[str, bytes], communicator: Communicator, **scheme: int
) -> Training:
    rng = np.random.default_rng(settings["seed"])
    task = Reconstruction(rng, width=settings["spec"]["width"])
    batch = task.sample(settings["batch"], rng)
    unseen = task.sample(UNSEEN_SEQUENCES, rng)
    model = build(settings, rng)
    peak = settings["learning_rate"]

    def schedule(epoch, epochs):
        return warmup_stable_decay(epoch, epochs, peak, decay=max(1, epochs // 5))

    def error(inputs, targets):
        loss, _ = mean_squared_error(model.forward(inputs)[0], targets)
        return f"{loss:.5f}"

    def measures():
        yield "MSE on the training batch", error(*batch)
        yield "MSE on unseen sequences", error(*unseen)
        yield "MSE of predicting zero", f"{predict_zero(unseen[1]):.5f}"

    adam = partial(Adam, learning_rate=peak, beta2=settings["beta2"])
    parallel = over_ranks(model, sequences, adam, communicator, threads=1, **scheme)
    return Training(
        parallel.scheme,
        parallel.optimizer,
        lambda first: repeat(batch),
        schedule,
        measures,
        parallel.gather,
        parallel.scatter,
        model.set_parameters,
    )


def sequences(inputs, targets):
    return len(inputs)


RECIPE = Recipe("encoder", DEFAULTS, ("epochs",), training)


def load(folder: str | Path) -> Reconstructor:
    """Return the model that ``train encoder`` has trained into a folder."""
    run = Run(folder)
    model = build(load_settings(run, RECIPE), np.random.default_rng(0))
    run.load_checkpoint(model.parameters())
    return model
