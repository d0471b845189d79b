"""What the commands that train have in common: a run on disk that can be resumed."""

import argparse
from time import perf_counter

from transformer_core.training import train


def add_options(parser, learning_rate):
    """Add the options of every training."""
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    parser.add_argument(
        "--out",
        required=True,
        metavar="RUN",
        default=argparse.SUPPRESS,
        help="folder for settings.json, history.json and checkpoint.safetensors",
    )
    parser.add_argument(
        "--learning-rate",
        type=float,
        default=learning_rate,
        help="of Adam, at its peak",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="for data and initial parameters"
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on from the checkpoint in RUN; all settings are those it was started with",
    )


def load_settings(run, model):
    """Return the settings of a run that ``train`` has made of a model, by its name there.

    Raises
    ------
    ValueError
        If there are none, or they are those of another model.
    """
    settings = run.settings()
    if not isinstance(settings, dict) or settings.get("model") != model:
        raise ValueError(
            f"{run.folder}: expected a run of 'train {model}', got the settings {settings}"
        )
    return settings


class Deadline:
    """As many steps as fit into a time, by the pace so far: the ``steps`` of :func:`train`.

    A run that is resumed has the time that was left at its checkpoint. At least one step is taken.

    Parameters
    ----------
    seconds : float
    """

    def __init__(self, seconds):
        if not 0 < seconds < float("inf"):
            raise ValueError(f"seconds: expected a positive number, got {seconds}")
        self.seconds = seconds
        self.start = None

    def __call__(self, history):
        spent = history[-1]["seconds"] if history else 0
        if self.start is None:
            self.start = perf_counter() - spent
        if spent >= self.seconds:
            return len(history)
        pace = spent / len(history) if history else 1e-3  # a guess, for the first step
        return max(len(history) + 1, round(self.seconds / pace))

    def note(self, history):
        """Put the seconds since the start of training into the newest record."""
        history[-1]["seconds"] = round(perf_counter() - self.start, 3)


def train_on_disk(
    run,
    settings,
    resume,
    loss_and_gradients,
    optimizer,
    batches,
    steps,
    schedule,
    every,
    max_norm=None,
    files=None,
):
    """Train in a new run, or go on in one that was stopped.

    Parameters
    ----------
    run : Run
    settings : dict
        Kept in the run.
    resume : bool
    loss_and_gradients, optimizer
        As for :func:`train`.
    steps : int or Deadline
    schedule : callable
        ``schedule(step, steps)`` is the learning rate of a step, of so many in all.
    batches : callable
        ``batches(first)`` are the batches from the step ``first`` on, counted from 1.
    every : int
        Steps from one checkpoint to the next.
    max_norm : float, optional
        As for :func:`train`.
    files : dict of str to bytes, optional
        More to keep in a new run, by their names.
    """
    history = []
    if resume:
        run.load_checkpoint(optimizer.parameters, optimizer)
        history = run.history()[: optimizer.steps]
    else:
        run.create(settings, files)

    def total():
        return steps(history) if callable(steps) else steps

    def save_checkpoint(history):
        if callable(steps):
            steps.note(history)
        if len(history) % every == 0 or len(history) == total():
            run.save_history(history)  # first, so that it never lags behind
            run.save_checkpoint(optimizer.parameters, optimizer)

    try:
        train(
            loss_and_gradients,
            optimizer,
            batches(len(history) + 1),
            steps,
            schedule=lambda step: schedule(step, total()),
            max_norm=max_norm,
            history=history,
            after_step=save_checkpoint,
        )
    finally:
        run.save_history(history)
