"""Malformed input to the training loop, to data parallelism and to runs on disk."""

from itertools import repeat
from tempfile import TemporaryDirectory

import numpy as np
from malformed import (
    RNG,
    Choice,
    Floats,
    Mask,
    Named,
    Reals,
    Setting,
    both_tests,
    call,
    positive,
    public_names,
    whole,
)

from transformer_core import training
from transformer_core.layers import LayerSpec
from transformer_core.optim import Adam
from transformer_core.tasks.reconstruction import Reconstructor
from transformer_core.tasks.reconstruction.recipe import RECIPE
from transformer_core.training import DataParallel, Run

MODEL = Reconstructor(
    LayerSpec(6, 2, 7, "pre", dtype="float64"), 1, np.random.default_rng(1)
)
BATCH = tuple(np.random.default_rng(2).normal(size=(2, 2, 3, 6)))
PARALLEL = DataParallel(MODEL.loss_and_gradients, lambda *shard: 1)
PARAMETERS = {"a": np.ones((6, 7)), "b": np.ones(7)}
SAVED = Named(a=Floats("D F"), b=Floats("F"))


def combined(weight, loss, grads):
    first = 1.0, 2.0, {"a": np.ones((6, 7)), "b": np.ones(7)}
    return training.combine([first, (weight, loss, grads)])


def trained(**settings):
    parameters = {"x": np.ones(3)}

    def loss_and_gradients(rng):
        return (parameters["x"] ** 2).sum(), {"x": 2 * parameters["x"]}

    training.train(
        loss_and_gradients,
        Adam(parameters, 0.1),
        repeat((), 4),
        **settings,
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


def started(**settings):
    with TemporaryDirectory() as folder:
        Run(folder).create(settings["settings"], settings["files"])


def saved_and_loaded(run, saved, loaded):
    run.save_checkpoint(saved, Adam(PARAMETERS))
    run.load_checkpoint(loaded)


def begun(**settings):
    """Train one step into a folder."""
    spec = {"width": settings.pop("width"), "attention": {"heads": 2}}
    with TemporaryDirectory() as folder:
        training.train_on_disk(
            RECIPE, f"{folder}/run", {"spec": spec, "epochs": 1, "batch": 2, **settings}
        )


JSON = Choice(
    {"seed": 0}, [{"x": np.int64(1)}, {"x": np.nan}, {1j: 2}, {"x": {3}}, object]
)
FOLDER = Choice("valid", ["", None, 3, [], b"folder", 0.5, object])
CALLS = {
    "DataParallel": call(
        lambda threads: DataParallel(None, None, threads),
        threads=Setting(
            2, lambda v: isinstance(v, (int, np.integer)) and 0 < v < 2**31, True
        ),
    ),
    "DataParallel.__call__": call(
        lambda inputs, targets, keep, rng: PARALLEL(inputs, targets, keep, rng=rng),
        inputs=Floats("B T 6"),
        targets=Floats("B1 T 6"),  # of length 1: the same for all sequences
        keep=Mask("B 2 T T"),
        rng=RNG,
    ),
    "Run": call(Run, folder=FOLDER),
    "Run.create": call(
        started,
        settings=JSON,
        files=Choice(
            {"a.txt": b"a"},
            [
                {"../a": b""},
                {"": b""},
                {"..": b""},
                {"a/b": b""},
                {"a": "text"},
                {"a": 3},
            ],
        ),
    ),
    "Run.load_checkpoint": call(
        on_disk(saved_and_loaded),
        changes=("loaded",),
        saved=Named(a=Floats("D F"), b=Floats("F")),
        loaded=Named(a=Floats("D F"), b=Floats("F")),
    ),
    "Run.read": call(
        on_disk(lambda run, name: run.read(name)),
        name=Choice("settings.json", ["none", ""]),
    ),
    "Run.save_checkpoint": call(
        on_disk(lambda run, saved: run.save_checkpoint(saved, Adam(PARAMETERS))),
        saved=Named(free=True, a=Reals("D F"), b=Reals("F")),
    ),
    "Run.save_history": call(
        on_disk(lambda run, history: run.save_history(history)), history=JSON
    ),
    "Run.save_settings": call(
        on_disk(lambda run, settings: run.save_settings(settings)), settings=JSON
    ),
    "combine": call(
        combined,
        weight=Setting(2.0, lambda v: 0 <= v < np.inf),
        loss=Setting(2.0, lambda v: True),
        grads=Named(a=Reals("6 7"), b=Reals("7")),
    ),
    "train": call(
        trained,
        steps=Setting(2, lambda v: isinstance(v, (int, np.integer)) and 0 <= v <= 4),
        seed=whole(0, least=0),
        max_norm=positive(1.0, optional=True),
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
OTHERS = {"DataParallel.map", "DataParallel.over_ranks", "Run.has", "load_settings"}


def test_every_public_name_is_in_the_table():
    names = set(public_names(training)) - OTHERS
    assert sorted(names | {"DataParallel.__call__"}) == sorted(CALLS)


test_valid_calls_pass, test_what_is_malformed_is_named = both_tests(CALLS)
