"""Trainings on disk: started in a folder, stopped, resumed, extended."""

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from math import isfinite
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from transformer_core import __version__
from transformer_core.distributed import Communicator
from transformer_core.foundation.checks import (
    check_positive,
    check_positive_int,
    check_real,
    check_whole,
)
from transformer_core.foundation.names import summary
from transformer_core.optim.optimizer import Optimizer
from transformer_core.training.loop import train
from transformer_core.training.run import CHECKPOINT, Run, checkpoint, to_json

BEFORE_DECAY = "before_decay.safetensors"
LONGEST = 2**53  # steps: whole numbers up to here are exact


class Training(NamedTuple):
    """All that a training needs, ready to begin."""

    loss_and_gradients: Callable
    optimizer: Optimizer
    batches: Callable  # batches(first): those of the steps first, first + 1, ...
    schedule: Callable  # schedule(step, steps): the learning rate of one of so many
    measures: Callable  # measures(): pairs of a name and a figure, as they are printed


class Recipe(NamedTuple):
    """What is trained on what.

    The defaults are all that is decided before training, as JSON can hold it: among them
    ``learning_rate``, ``seed``, ``max_norm`` and ``checkpoint_every``, and one or more lengths:
    ``minutes``, or a number of steps by any name. All lengths but one are None.
    """

    model: str  # what the command line calls it
    defaults: dict
    lengths: tuple[str, ...]
    training: Callable  # training(settings, files, communicator) returns the Training
    prepare: Callable = (
        lambda settings: {}
    )  # complete the settings; return files by names
    files: tuple[str, ...] = ()  # those names


class Deadline:
    """As many steps as fit into a time, by the pace so far: the ``steps`` of :func:`train`.

    A run that is resumed has the time that was left at its checkpoint. At least one step is taken.
    """

    def __init__(self, minutes: float):
        check_real("minutes", minutes)
        if not 0 < 60 * minutes < float("inf"):
            raise ValueError(f"minutes: expected a positive number, got {minutes}")
        self.seconds = 60 * minutes
        self.start: float | None = None

    def __call__(self, history: list[dict]) -> int:
        spent = history[-1].get("seconds") if history else 0
        if not isinstance(spent, (int, float)):
            raise ValueError("history: expected the seconds of each step, found none")
        if self.start is None:
            self.start = perf_counter() - spent
        if spent >= self.seconds:
            return len(history)
        pace = (spent or 1e-3) / (len(history) or 1)  # a guess, at first
        return max(len(history) + 1, round(min(self.seconds / pace, LONGEST)))

    def spent(self) -> float:
        """Return the seconds since the start of training."""
        return round(perf_counter() - self.start, 3)


def train_on_disk(
    recipe: Recipe,
    folder: str,
    given: dict,
    resume: bool = False,
    communicator: Communicator | None = None,
) -> Training:
    """Train in a new folder, or go on in one where training was stopped.

    The first Ctrl-C ends it after the step that it came in, with a checkpoint; a second one ends
    it at once.

    On many ranks all call it with the same arguments. Rank 0 alone touches the folder, shows the
    progress and looks at the clock, and what it begins with is sent to the others. Ctrl-C on any
    rank ends all of them after the same step. A run may go on with another number of ranks: its
    sums are then cut at other places, and differ by rounding.

    Parameters
    ----------
    recipe : Recipe
    folder : str or Path
    given : dict
        Other settings than the recipe's. A run that is resumed keeps its own: another length is
        the only change, if no step so far would have had another learning rate. For that, the
        state before the rate began to fall is kept in the run.
    resume : bool
    communicator : Communicator, optional
        Default: a process alone.

    Returns
    -------
    Training
        At its end, when the run is written.

    Raises
    ------
    ValueError
        If the settings, the folder or what is in it do not hold; as :func:`train` does.
    KeyboardInterrupt
        After Ctrl-C.
    """
    import_module("tqdm")  # if it is missing, say so before there is a folder
    communicator = communicator or Communicator()
    first = communicator.rank == 0
    run = Run(folder)
    history: list[dict] = []
    started: dict = {}
    settings: dict = {}
    files: dict[str, bytes] = {}
    if first and resume:
        started = load_settings(run, recipe)
        check_version(run, started)
        settings = resumed_settings(recipe, started, given, run)
        check_settings(recipe, settings)
        files = {name: run.read(name) for name in recipe.files}
    elif first:
        settings = new_settings(recipe, given)
        files = recipe.prepare(settings)
    settings = json.loads(of_first(communicator, to_json("settings", settings)))
    files = {n: of_first(communicator, files.get(n, b"")) for n in recipe.files}
    steps = steps_of(recipe, settings)
    training = recipe.training(settings, files, communicator)
    schedule, optimizer = training.schedule, training.optimizer
    state = optimizer.parameters, optimizer

    def total():
        return steps(history) if isinstance(steps, Deadline) else steps

    def after_step(history):
        n = len(history)
        timed = isinstance(steps, Deadline)
        # What each rank knows: the time, if it is rank 0's, and whether Ctrl-C came to it.
        known = [[steps.spent() if timed else 0, len(stopped)]]
        known = communicator.all_gather(np.array(known, np.float64))
        stop = known[:, 1].any()
        if timed:
            history[-1]["seconds"] = float(known[0, 0])
        elif first and n < steps and schedule(n + 1, steps) < schedule(n, steps):
            if same_rates(schedule, steps, 2 * steps, n):
                run.save_checkpoint(*state, BEFORE_DECAY)
        if first and (stop or n % settings["checkpoint_every"] == 0 or n == total()):
            run.save_history(history)  # first, so that it never lags behind
            run.save_checkpoint(*state)
        if stop:
            communicator.barrier()
            raise KeyboardInterrupt

    with ctrl_c_put_off() as stopped:
        if first and not resume:
            files[CHECKPOINT] = checkpoint(*state)
            files["history.json"] = to_json("history", history)
            run.create(settings, files)
        with run.lock() if first else nullcontext():
            if first and resume:
                history = go_on(run, training, recipe, started, settings)
            history = begin_together(communicator, optimizer, history)
            try:
                train(
                    training.loss_and_gradients,
                    optimizer,
                    training.batches(len(history) + 1),
                    steps,
                    seed=settings["seed"],
                    schedule=lambda step: schedule(step, total()),
                    max_norm=settings["max_norm"],
                    history=history,
                    after_step=after_step,
                    progress=first,
                )
            finally:
                if first:
                    run.save_history(history)
            communicator.barrier()
    return training


def of_first(communicator: Communicator, content: bytes) -> bytes:
    """Return the content that rank 0 has."""
    return communicator.broadcast(np.frombuffer(content, np.uint8)).tobytes()


def begin_together(
    communicator: Communicator, optimizer: Optimizer, history: list[dict]
) -> list[dict]:
    """Give the state of rank 0 to the optimiser of every rank; return its history."""
    for array in (*optimizer.parameters.values(), *optimizer.state().values()):
        array[...] = communicator.broadcast(array)
    history = json.loads(of_first(communicator, to_json("history", history)))
    optimizer.steps = len(history)
    return history


def new_settings(recipe: Recipe, given: dict) -> dict:
    """Return the settings of a new run: of the lengths only the one that is given."""
    unknown = given.keys() - recipe.defaults.keys()
    if unknown:
        raise ValueError(
            f"settings: expected some of {', '.join(recipe.defaults)}, got {summary(unknown)}"
        )
    for name, value in given.items():
        if isinstance(value, float) and not isfinite(value):
            raise ValueError(f"{name}: expected a finite number, got {value}")
    others = recipe.lengths if given.keys() & set(recipe.lengths) else ()
    made_by = {"model": recipe.model, "version": __version__}
    settings = merged(made_by | recipe.defaults | dict.fromkeys(others), given)
    check_settings(recipe, settings)  # before the preparation, which may take a while
    return settings


def check_settings(recipe: Recipe, settings: dict) -> None:
    """Raise ``ValueError`` unless a training can have these settings, of those all have."""
    steps_of(recipe, settings)
    check_positive("learning_rate", settings["learning_rate"])
    check_positive_int("checkpoint_every", settings["checkpoint_every"])
    check_whole("seed", settings["seed"])


def resumed_settings(recipe: Recipe, started: dict, given: dict, run: Run) -> dict:
    """Return the settings of a run that goes on, perhaps to another length."""
    for name, value in given.items():
        had = started.get(name)
        if isinstance(value, dict):
            resumed_settings(recipe, had, value, run)
        elif value != had and (name not in recipe.lengths or had is None):
            raise ValueError(
                f"{name}: expected {'none' if had is None else had}, as {run.folder} was "
                f"started with, got {value}"
            )
    return merged(started, given)


def merged(settings: dict, given: dict) -> dict:
    """Return settings with others in their place, also in the dictionaries among them."""
    inner = {
        name: merged(settings[name], value)
        for name, value in given.items()
        if isinstance(value, dict) and isinstance(settings[name], dict)
    }
    return settings | given | inner


def load_settings(run: Run, recipe: Recipe) -> dict:
    """Return the settings of a run.

    Raises
    ------
    ValueError
        If there are none, or they are not those of this recipe.
    """
    settings = run.settings()
    if not isinstance(settings, dict) or settings.get("model") != recipe.model:
        raise ValueError(
            f"{run.folder}: expected a run of 'train {recipe.model}', "
            f"got the settings {settings}"
        )
    names = recipe.defaults.keys() | {"model", "version"}
    if settings.keys() != names:
        raise ValueError(
            f"{run.folder}: expected the settings of version {__version__}, got those of "
            f"{settings.get('version', 'an older one')}: missing "
            f"{summary(names - settings.keys())}; unknown {summary(settings.keys() - names)}"
        )
    for name, default in recipe.defaults.items():
        if not alike(settings[name], default, name in recipe.lengths):
            raise ValueError(
                f"{run.folder}: {name}: expected a setting such as {default!r}, "
                f"got {settings[name]!r}"
            )
    return settings


def check_version(run: Run, started: dict) -> None:
    """Raise ``ValueError`` if another version, whose steps may be others, began the run."""
    if started["version"] != __version__:
        raise ValueError(
            f"{run.folder}: expected a run of version {__version__} to go on with, got one of "
            f"version {started['version']}"
        )


def alike(value: Any, default: Any, optional: bool = False) -> bool:
    """Tell whether a value has the type of a default, and so have the values in it."""
    if default is None or value is None and optional:
        return not isinstance(value, (dict, list))
    if isinstance(default, dict):
        return (
            isinstance(value, dict)
            and value.keys() == default.keys()
            and all(alike(value[name], default[name]) for name in default)
        )
    return type(value) is type(default)


def go_on(
    run: Run, training: Training, recipe: Recipe, started: dict, settings: dict
) -> list[dict]:
    """Load the last state that the run has in common with one of these settings.

    Return the history up to there; save the settings, if they are others.
    """
    (name, old), (_, new) = length(recipe, started), length(recipe, settings)
    state = training.optimizer.parameters, training.optimizer

    def in_common(taken):
        return (
            old == new
            or taken == 0
            or name != "minutes"
            and same_rates(training.schedule, old, new, taken)
        )

    run.load_checkpoint(*state)
    history = run.history()
    if len(history) < training.optimizer.steps:
        raise ValueError(
            f"{run.folder}: expected a history of the {training.optimizer.steps} steps of "
            f"the checkpoint, got {len(history)}"
        )
    if not in_common(training.optimizer.steps) and run.has(BEFORE_DECAY):
        run.load_checkpoint(*state, BEFORE_DECAY)
    taken = training.optimizer.steps
    if not in_common(taken):
        raise ValueError(
            f"{name}: expected {old}, got {new}: the learning rate of the {taken} steps "
            f"that {run.folder} holds belongs to {old}, so {new} takes a new run"
        )
    if old != new:
        run.save_checkpoint(*state)
        run.save_settings(settings)
    return history[:taken]


def same_rates(schedule: Callable, one: int, other: int, taken: int) -> bool:
    """Tell whether the first steps of two lengths have the same learning rates."""
    return taken <= min(one, other) and all(
        schedule(step, one) == schedule(step, other) for step in range(taken, 0, -1)
    )


def length(recipe: Recipe, settings: dict) -> tuple[str, Any]:
    """Return which setting says how long to train, and what it says."""
    given = [name for name in recipe.lengths if settings[name] is not None]
    if len(given) != 1:
        raise ValueError(f"settings: expected one of {', '.join(recipe.lengths)}")
    return given[0], settings[given[0]]


def steps_of(recipe: Recipe, settings: dict) -> int | Deadline:
    name, value = length(recipe, settings)
    if name == "minutes":
        return Deadline(value)
    check_positive_int(name, value)
    return value


@contextmanager
def ctrl_c_put_off() -> Iterator[list]:
    """Collect the first Ctrl-C in a list, and raise it at the end; the second comes through."""
    came = []

    def note(number, frame):
        came.append(number)
        signal.signal(number, signal.default_int_handler)

    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield came
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt
