"""Trainings on disk: started in a folder, stopped, resumed, extended."""

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module

import numpy as np

from transformer_core import __version__
from transformer_core.foundation.files import to_json
from transformer_core.optim.optimizer import Optimizer
from transformer_core.ranks import Communicator
from transformer_core.training.loop import train
from transformer_core.training.recipe import (
    Deadline,
    Recipe,
    Training,
    check_settings,
    length,
    load_settings,
    merged,
    new_settings,
    steps_of,
)
from transformer_core.training.run import SETTINGS, Run, digest

BEFORE_DECAY = "before_decay.safetensors"


def train_on_disk(
    recipe: Recipe,
    folder: str,
    given: dict,
    resume: bool = False,
    communicator: Communicator | None = None,
    scheme: dict | None = None,
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
    scheme : dict, optional
        How the recipe's training is cut over the ranks. It is not kept: a run may go on with
        another scheme, as with another number of ranks.

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
        run.check_new()
        settings = new_settings(recipe, given)
        files = recipe.prepare(settings)
    settings = json.loads(of_first(communicator, to_json("settings", settings)))
    files = {n: of_first(communicator, files.get(n, b"")) for n in recipe.files}
    training = recipe.training(settings, files, communicator, **(scheme or {}))
    state = training.state()
    with ctrl_c_put_off() as stopped:
        if first and not resume:
            run.create(settings, files, state)
        with run.lock() if first else nullcontext():
            history = []
            if first and resume:
                history = go_on(run, training, state, recipe, started, settings)
            history = begin_together(communicator, state[1], history)
            if training.scatter:
                training.scatter(*state)
            del state
            loop(run, training, recipe, settings, history, communicator, stopped)
            if training.restore and training.gather:
                parameters, _ = training.gather(0)
                if first:
                    training.restore(parameters)
    return training


def loop(
    run: Run,
    training: Training,
    recipe: Recipe,
    settings: dict,
    history: list[dict],
    communicator: Communicator,
    stopped: list,
) -> None:
    """Train from where rank 0 stands to the end, or until Ctrl-C is in the list ``stopped``."""
    first = communicator.rank == 0
    steps = steps_of(recipe, settings)
    timed = isinstance(steps, Deadline)
    schedule, optimizer = training.schedule, training.optimizer

    def save(*name):
        state = training.state(root=0)
        if first:
            run.save_checkpoint(*state, *name)

    def total():
        return steps(history) if timed else steps

    def after_step(history):
        n = len(history)
        # What each rank knows: the time, if it is rank 0's, and whether Ctrl-C came to it.
        known = [[steps.spent() if timed else 0, len(stopped)]]
        known = communicator.all_gather(np.array(known, np.float64))
        stop = known[:, 1].any()
        if timed:
            history[-1]["seconds"] = float(known[0, 0])
        elif n < steps and schedule(n + 1, steps) < schedule(n, steps):
            if same_rates(schedule, steps, 2 * steps, n):
                save(BEFORE_DECAY)
        if stop or n % settings["checkpoint_every"] == 0 or n == total():
            if first:
                run.save_history(history)  # first, so that it never lags behind
            save()
        if stop:
            communicator.barrier()
            raise KeyboardInterrupt

    try:
        train(
            training.model,
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


def check_version(run: Run, started: dict) -> None:
    """Raise ``ValueError`` if another version, whose steps may be others, began the run."""
    if started["version"] != __version__:
        raise ValueError(
            f"{run.folder}: expected a run of version {__version__} to go on with, got one of "
            f"version {started['version']}"
        )


def go_on(
    run: Run,
    training: Training,
    state: tuple[dict, Optimizer],
    recipe: Recipe,
    started: dict,
    settings: dict,
) -> list[dict]:
    """Load the last state that the run has in common with one of these settings.

    Return the history up to there; save the settings, if they are others.
    """
    (name, old), (_, new) = length(recipe, started), length(recipe, settings)
    _, optimizer = state

    def in_common(taken):
        return (
            old == new
            or taken == 0
            or name != "minutes"
            and same_rates(training.schedule, old, new, taken)
        )

    run.load_checkpoint(*state)
    history = run.history()
    if len(history) < optimizer.steps:
        raise ValueError(
            f"{run.folder}: expected a history of the {optimizer.steps} steps of "
            f"the checkpoint, got {len(history)}"
        )
    if not in_common(optimizer.steps) and run.has(BEFORE_DECAY):
        run.load_checkpoint(*state, BEFORE_DECAY)
    taken = optimizer.steps
    if not in_common(taken):
        raise ValueError(
            f"{name}: expected {old}, got {new}: the learning rate of the {taken} steps "
            f"that {run.folder} holds belongs to {old}, so {new} takes a new run"
        )
    if old != new:  # a kill in between leaves a checkpoint that goes with either
        run.digests[SETTINGS] += [digest(to_json("settings", settings))]
        run.save_checkpoint(*state)
        run.save_settings(settings)
    return history[:taken]


def same_rates(schedule: Callable, one: int, other: int, taken: int) -> bool:
    """Tell whether the first steps of two lengths have the same learning rates."""
    return taken <= min(one, other) and all(
        schedule(step, one) == schedule(step, other) for step in range(taken, 0, -1)
    )


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
