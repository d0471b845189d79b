"""The trainings of the book with the reader's functions in place of the package's."""

from collections.abc import Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from transformer_core.tasks.gpt import load
from transformer_core.tasks.gpt.recipe import RECIPE as GPT
from transformer_core.tasks.gpt.writing import USUAL, write
from transformer_core.training import Recipe, Run, train_on_disk
from transformer_practice.engine.exercise import Exercise
from transformer_practice.engine.running import Failed
from transformer_practice.exercises import find_exercise
from transformer_practice.workspace.folder import chapters, file_of, read
from transformer_practice.workspace.room import Room
from transformer_practice.workspace.substitution import Used, in_the_package
from transformer_practice.workspace.surroundings import Surroundings

YOURS, PACKAGE = "yours", "package"
PROMPT = "Return the "


class Comparison(NamedTuple):
    """Scores by their names, as the chapters print them, and what the reader's functions did.

    ``text`` is what a GPT writes with them after ``PROMPT``; other models write nothing.
    """

    yours: dict[str, str]
    package: dict[str, str]
    used: Used
    text: str


def train_both(
    recipe: Recipe,
    given: dict,
    workspace: Path,
    exercises: Sequence[Exercise],
    out: str | None = None,
) -> Comparison:
    """Train with the reader's functions, then with the package's alone, all else being equal.

    The first training has a process of its own. If it is given a time, the second takes as many
    steps.

    Parameters
    ----------
    recipe : Recipe
    given : dict
        Other settings than the recipe's.
    workspace : Path
        Where the reader's functions are.
    exercises : sequence of Exercise
        Those that are right, and replace the package's.
    out : str, optional
        A new or empty folder for both runs. Default: they are not kept.

    Raises
    ------
    ValueError
        If the folder is in use; as :func:`train_on_disk`; if a function of the reader's raises
        something, does not come back, ends its process, or changes what is not its own; or if none
        of them was called.
    """
    names = [exercise.name for exercise in exercises]
    with folder_for(out) as folder:
        room = Room(train_yours, workspace, recipe, given, names, folder / YOURS, quiet=False)
        try:
            yours, used, text, error = room.receive()
        except Failed as failure:
            raise ValueError(f"a function of yours {failure}") from None
        finally:
            room.close()
        if error:
            raise error
        if not used.called:
            raise ValueError(
                f"expected functions that this training calls, got only {', '.join(names)}"
            )
        given = as_long(given, Run(folder / YOURS))
        training = train_on_disk(recipe, str(folder / PACKAGE), given)
        return Comparison(yours, dict(training.measures()), used, text)


def train_yours(connection, workspace, recipe, given, names, folder):
    """Train with the reader's functions; send the scores, what was used, a text, what failed."""
    surroundings, scores, text, error = Surroundings(), {}, "", None
    exercises = [find_exercise(name) for name in names]
    owns = [
        own
        for chapter in dict.fromkeys(exercise.chapter for exercise in exercises)
        for own in read(workspace / file_of(chapter), chapters()[chapter])
        if own.exercise in exercises
    ]
    with in_the_package(owns) as used:
        try:
            scores = dict(train_on_disk(recipe, str(folder), given).measures())
            if recipe.model == GPT.model:
                gpt, pairs = load(folder)
                text = "".join(write(gpt, pairs, PROMPT, np.random.default_rng(0), USUAL))
        except Exception as failure:
            error = failure
    change = surroundings.change()
    if change:
        error = ValueError(f"a function of yours {change}")
    elif error and used.not_finite:
        error = ValueError(
            f"{used.not_finite[0]} is the first to return numbers that are not finite"
        )
    connection.send((scores, used, text, error))


def as_long(given: dict, run: Run) -> dict:
    """Return settings for as many steps as a run took, if it was given a time."""
    if run.settings().get("minutes") is None:
        return given
    others = {name: value for name, value in given.items() if name != "minutes"}
    return others | {"steps": len(run.history())}


@contextmanager
def folder_for(out):
    """Give the folder of the runs, a temporary one if none is asked for."""
    if out == "" or out and Path(out).exists() and any(Path(out).iterdir()):
        raise ValueError(f"out: expected a new or empty folder, got {out or 'an empty name'}")
    with nullcontext(out) if out else TemporaryDirectory() as folder:
        yield Path(folder)
