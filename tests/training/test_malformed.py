"""Malformed input to the training loop and to runs on disk."""

from copy import copy
from tempfile import TemporaryDirectory

import numpy as np
from helpers.malformed import Choice, Named, Setting, Table, call, count, positive

from transformer_core import training
from transformer_core.optim import Adam
from transformer_core.tasks.reconstruction.recipe import RECIPE
from transformer_core.training import Run

PARAMETERS = {"a": np.ones((6, 7)), "b": np.ones(7)}
SAVED = Named(a="D F", b="F")


def combined(weight, loss, grads):
    first = 1.0, 2.0, {"a": np.ones((6, 7)), "b": np.ones(7)}
    return training.combine([first, (weight, loss, grads)])


def trained(steps, seed, max_norm, batches, history):
    parameters = {"x": np.ones(3)}

    def loss_and_gradients(rng):
        return (parameters["x"] ** 2).sum(), {"x": 2 * parameters["x"]}

    training.train(
        loss_and_gradients,
        Adam(parameters, 0.1),
        batches,
        steps=steps,
        history=copy(history),  # which is appended to
        seed=seed,
        max_norm=max_norm,
        progress=False,
    )


def on_disk(work):
    """Call ``work(run, ...)`` with a run in a folder that goes away."""

    def run(**given):
        with TemporaryDirectory() as folder:
            run = Run(folder)
            run.create({"seed": 0})
            work(run, **given)

    return run


def started(settings, files):
    with TemporaryDirectory() as folder:
        Run(folder).create(settings, files)


def saved_and_loaded(run, saved, loaded):
    run.save_checkpoint(saved, Adam(PARAMETERS))
    run.load_checkpoint(loaded)


def begun(width, **settings):
    """Train one step into a folder."""
    spec = {"width": width, "attention": {"heads": 2}}
    with TemporaryDirectory() as folder:
        training.train_on_disk(
            RECIPE, f"{folder}/run", {"spec": spec, "epochs": 1, "batch": 2, **settings}
        )


JSON = Choice({"seed": 0}, [{"x": np.int64(1)}, {"x": np.nan}, {1j: 2}, {"x": {3}}, object])
LINES = {
    "Run": {"folder": Choice("valid", ["", None, 3, [], b"folder", 0.5, object])},
    "Run.create": call(
        started,
        settings=JSON,
        files=Choice(
            {"a.txt": b"a"},
            [{"../a": b""}, {"": b""}, {"..": b""}, {"a/b": b""}, {"a": "text"}, {"a": 3}],
        ),
    ),
    "Run.load_checkpoint": call(
        on_disk(saved_and_loaded), changes=("loaded",), saved=SAVED, loaded=SAVED
    ),
    "Run.read": call(
        on_disk(lambda run, name: run.read(name)), name=Choice("settings.json", ["none", ""])
    ),
    "Run.save_checkpoint": call(
        on_disk(lambda run, saved: run.save_checkpoint(saved, Adam(PARAMETERS))),
        saved=Named(free=True, a="reals D F", b="reals F"),
    ),
    "Run.save_history": call(on_disk(lambda run, history: run.save_history(history)), history=JSON),
    "Run.save_settings": call(
        on_disk(lambda run, settings: run.save_settings(settings)), settings=JSON
    ),
    "combine": call(
        combined,
        weight=Setting(2.0, lambda v: 0 <= v < np.inf),
        loss=Setting(2.0, lambda v: True),
        grads=Named(a="reals 6 7", b="reals 7"),
    ),
    "train": call(
        trained,
        steps=count(2, lambda v: 0 <= v <= 4),
        batches=Choice([()] * 4, [None, 3, 0.5, [], object]),
        history=Choice([], [(), {}, "", "999", 3, object]),
    ),
    "train_on_disk": call(
        begun,
        width=Choice(6, [0, -1, 5, 2.5, "6", None, [6], True]),
        layers=Choice(1, [0, -1, 2.5, "1", [1]]),
        learning_rate=positive(0.1),
        batch=Choice(2, [0, -1, 2.5, "2", [2], True]),
        seed=Choice(0, [-1, 2.5, "0"]),
        checkpoint_every=Choice(1, [0, -1, 2.5, "1", [1]]),
        max_norm=Choice(1.0, [0, -1, "1", [1], np.nan]),
    ),
}
# What has no argument of its own to spoil, or is called by the package alone.
WITHOUT = {
    "Run.arrays",
    "Run.check_checkpoint",
    "Run.check_files",
    "Run.has",
    "Run.path",
    "Run.save_arrays",
    "Run.write",
    "few_bits",
    "load_settings",
    "rounded_arrays",
}
# What names a parameter, a file, a step or a setting.
INDIRECT = {
    "Run.load_checkpoint": dict.fromkeys(("saved", "loaded"), "parameters checkpoint"),
    "Run.read": {"name": "*"},
    "Run.save_checkpoint": {"saved": "parameters"},
    "train": {"steps": "batches", "max_norm": "step"},
    "train_on_disk": {"width": "spec", "learning_rate": "step", "batch": "sequences"},
}
FILE = "tests/training/test_malformed.py"
TRAINING = Table(FILE, [training], LINES, without=WITHOUT, indirect=INDIRECT)
test_the_table_is_complete, test_valid_calls_pass, test_what_is_malformed_is_named = (
    TRAINING.tests()
)
