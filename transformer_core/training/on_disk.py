"""Trainings on disk: started in a folder, stopped, resumed, extended."""

import json
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib import import_module

import numpy as np

from transformer_core import __version__
from transformer_core.foundation.files import to_json
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
from transformer_core.training.run import CHECKPOINT, SETTINGS, Run, digest
from transformer_core.training.whole_state import WholeState

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
    for module in ("tqdm", "safetensors"):
        import_module(module)  # if it is missing, say so before there is a folder
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
    if training.gather is None:  # every rank has everything
        state = WholeState(training.optimizer)
        training = training._replace(
            gather=state.gather, scatter=state.scatter, restore=None
        )
    with ctrl_c_put_off() as stopped:
        if not resume:
            save_together(
                communicator,
                training,
                lambda *whole: run.create(settings, files, whole),
            )
        with run.lock() if first else nullcontext():
            history = []
            if first and resume:
                history = go_on(run, training, recipe, started, settings)
            history = begin_together(communicator, training, run, history)
            loop(run, training, recipe, settings, history, communicator, stopped)
            if training.restore:
                save_together(communicator, training, partial(restore, training))
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
        def write(like, arrays):
            run.save_arrays(like, arrays, optimizer.steps, *name)

        save_together(communicator, training, write)

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


def save_together(
    communicator: Communicator, training: Training, save: Callable
) -> None:
    """Call ``save(like, arrays)`` on rank 0 while all ranks gather one array after another."""
    like, arrays = training.gather()

    def in_step():
        for array in arrays:
            yield array
            communicator.barrier()  # so that none waits in the memory of rank 0

    if communicator.rank == 0:
        save(like, in_step())
    else:
        deque(in_step(), 0)


def begin_together(
    communicator: Communicator, training: Training, run: Run, history: list[dict]
) -> list[dict]:
    """Give what rank 0 reads to every rank, one array after another; return its history."""
    like, _ = training.gather()
    arrays = run.arrays() if communicator.rank == 0 else sorted(like.items())
    for name, array in arrays:
        training.scatter(name, communicator.broadcast(array))
        communicator.barrier()
    training.optimizer.publish()
    history = json.loads(of_first(communicator, to_json("history", history)))
    training.optimizer.steps = len(history)
    return history


def restore(training: Training, like: dict, arrays: Iterable[np.ndarray]) -> None:
    """Give the model its parameters."""
    kind = "parameters."
    named = zip(sorted(like), arrays, strict=True)
    training.restore({n.removeprefix(kind): a for n, a in named if n.startswith(kind)})


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
    run: Run, training: Training, recipe: Recipe, started: dict, settings: dict
) -> list[dict]:
    """Make the last state that the run has in common with one of these settings its checkpoint.

    Return the history up to there; save the settings, if they are others.
    """
    (name, old), (_, new) = length(recipe, started), length(recipe, settings)
    optimizer, (like, _), file = training.optimizer, training.gather(), CHECKPOINT

    def in_common(taken):
        return (
            old == new
            or taken == 0
            or name != "minutes"
            and same_rates(training.schedule, old, new, taken)
        )

    optimizer.steps = run.check_checkpoint(like)
    history = run.history()
    if len(history) < optimizer.steps:
        raise ValueError(
            f"{run.folder}: expected a history of the {optimizer.steps} steps of "
            f"the checkpoint, got {len(history)}"
        )
    if not in_common(optimizer.steps) and run.has(BEFORE_DECAY):
        file = BEFORE_DECAY
        optimizer.steps = run.check_checkpoint(like, file)
    taken = optimizer.steps
    if not in_common(taken):
        raise ValueError(
            f"{name}: expected {old}, got {new}: the learning rate of the {taken} steps "
            f"that {run.folder} holds belongs to {old}, so {new} takes a new run"
        )
    if old != new:  # a kill in between leaves a checkpoint that goes with either
        run.digests[SETTINGS] += [digest(to_json("settings", settings))]
        run.save_arrays(like, (array for _, array in run.arrays(file)), taken)
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
