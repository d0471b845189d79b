"""The trainings of the book with the reader's functions in the place of the package's."""

from collections.abc import Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from transformer_core.training import Recipe, train_on_disk
from transformer_practice.workspace.folder import Own
from transformer_practice.workspace.substitution import Used, in_the_package

YOURS, PACKAGE = "yours", "package"


class Comparison(NamedTuple):
    """Scores by their names, as the chapters print them, and what the reader's functions did."""

    yours: dict[str, str]
    package: dict[str, str]
    used: Used


def train_both(
    recipe: Recipe, given: dict, owns: Sequence[Own], out: str | None = None
) -> Comparison:
    """Train with the reader's functions, then with the package's alone, all else being equal.

    Parameters
    ----------
    recipe : Recipe
    given : dict
        Other settings than the recipe's.
    owns : sequence of Own
        What is right, and goes in the place of the package's.
    out : str, optional
        A new or empty folder for both runs. Default: they are not kept.

    Raises
    ------
    ValueError
        If the folder is in use; as :func:`train_on_disk`; if a function of the reader's raises
        something, or none of them was called.
    """
    with folder_for(out) as folder:
        with in_the_package(owns) as used:
            training = train_on_disk(recipe, str(folder / YOURS), given)
            yours = dict(training.measures())
        if not used.called:
            names = ", ".join(own.exercise.name for own in owns)
            raise ValueError(f"expected what this training calls, got {names} alone")
        training = train_on_disk(recipe, str(folder / PACKAGE), given)
        return Comparison(yours, dict(training.measures()), used)


@contextmanager
def folder_for(out):
    """Give the folder of the runs, a temporary one if none is asked for."""
    if out == "" or out and Path(out).exists() and any(Path(out).iterdir()):
        raise ValueError(f"out: expected a new or empty folder, got {out or 'an empty name'}")
    with nullcontext(out) if out else TemporaryDirectory() as folder:
        yield Path(folder)
