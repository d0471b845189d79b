"""What is trained on what, and the settings that a run of it has."""

from collections.abc import Callable
from math import isfinite
from time import perf_counter
from typing import Any, NamedTuple

from transformer_core import __version__
from transformer_core.foundation.checks import (
    check_positive,
    check_positive_int,
    check_real,
    check_whole,
)
from transformer_core.foundation.names import summary
from transformer_core.optim.optimizer import Optimizer
from transformer_core.training.run import SETTINGS, Run

LONGEST = 2**53  # steps: whole numbers up to here are exact


class Training(NamedTuple):
    """All that a training needs, ready to begin."""

    model: Any  # or a scheme over ranks: what the loop takes
    optimizer: Optimizer
    batches: Callable  # batches(first): those of the steps first, first + 1, ...
    schedule: Callable  # schedule(step, steps): the learning rate of one of so many
    measures: Callable  # measures(): pairs of a name and a figure, as they are printed
    # Where the ranks have parts, those of a WholeState; and what takes the parameters in the end.
    gather: Callable | None = None
    scatter: Callable | None = None
    restore: Callable | None = None


class Recipe(NamedTuple):
    """What is trained on what.

    The defaults are all that is decided before training, as JSON can hold it: among them
    ``learning_rate``, ``seed``, ``max_norm`` and ``checkpoint_every``, and one or more lengths:
    ``minutes``, or a number of steps by any name. All lengths but one are None.
    """

    model: str  # what the command line calls it
    defaults: dict
    lengths: tuple[str, ...]
    training: (
        Callable  # training(settings, files, communicator, **scheme): the Training
    )
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


def new_settings(recipe: Recipe, given: dict) -> dict:
    """Return the settings of a new run: of the lengths only the one that is given."""
    check_known(given, recipe.defaults)
    for name, value in given.items():
        if isinstance(value, float) and not isfinite(value):
            raise ValueError(f"{name}: expected a finite number, got {value}")
    others = recipe.lengths if given.keys() & set(recipe.lengths) else ()
    made_by = {"model": recipe.model, "version": __version__}
    settings = merged(made_by | recipe.defaults | dict.fromkeys(others), given)
    check_settings(recipe, settings)  # before the preparation, which may take a while
    return settings


def check_known(given: dict, defaults: dict) -> None:
    """Raise ``ValueError`` unless all names are those of settings, also in the dictionaries."""
    unknown = given.keys() - defaults.keys()
    if unknown:
        raise ValueError(
            f"settings: expected some of {', '.join(defaults)}, got {summary(unknown)}"
        )
    for name, value in given.items():
        if isinstance(value, dict) and isinstance(defaults[name], dict):
            check_known(value, defaults[name])


def check_settings(recipe: Recipe, settings: dict) -> None:
    """Raise ``ValueError`` unless a training can have these settings, of those all have."""
    for name, default in recipe.defaults.items():
        if not has_type_of(settings[name], default, name in recipe.lengths):
            raise ValueError(
                f"{name}: expected a setting such as {default!r}, got {settings[name]!r}"
            )
    steps_of(recipe, settings)
    if settings["max_norm"] is not None:
        check_positive("max_norm", settings["max_norm"])
    check_positive("learning_rate", settings["learning_rate"])
    check_positive_int("checkpoint_every", settings["checkpoint_every"])
    check_whole("seed", settings["seed"])


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
    model = settings.get("model") if isinstance(settings, dict) else None
    if model != recipe.model:
        found = (
            f"one of 'train {model}'" if isinstance(model, str) else "other settings"
        )
        raise ValueError(
            f"{run.folder}: expected a run of 'train {recipe.model}', got {found:.60}"
        )
    names = recipe.defaults.keys() | {"model", "version"}
    if settings.keys() != names:
        raise ValueError(
            f"{run.folder}: expected the settings of version {__version__}, got those of "
            f"{settings.get('version', 'an older one')}: missing "
            f"{summary(names - settings.keys())}; unknown {summary(settings.keys() - names)}"
        )
    try:
        check_settings(recipe, settings)
    except ValueError as error:
        raise ValueError(f"{run.folder}: {error}") from None
    run.check_files((SETTINGS, *recipe.files))
    return settings


def has_type_of(value: Any, default: Any, optional: bool = False) -> bool:
    """Tell whether a value has the type of a default, and so have the values in it.

    A dictionary may lack names, those of fields that are newer than it.
    """
    if default is None or value is None and optional:
        return not isinstance(value, (dict, list))
    if isinstance(default, dict):
        return isinstance(value, dict) and all(
            name in default and has_type_of(one, default[name])
            for name, one in value.items()
        )
    kinds = (int, float) if isinstance(default, float) else type(default)
    return isinstance(value, kinds) and isinstance(value, bool) == isinstance(
        default, bool
    )


def length(recipe: Recipe, settings: dict) -> tuple[str, Any]:
    """Return which setting says how long to train, and what it says."""
    given = [name for name in recipe.lengths if settings[name] is not None]
    if len(given) != 1:
        raise ValueError(f"settings: expected one of {', '.join(recipe.lengths)}")
    return given[0], settings[given[0]]


def steps_of(recipe: Recipe, settings: dict) -> int | Deadline:
    """Return the length of a training as the ``steps`` of :func:`train`."""
    name, value = length(recipe, settings)
    if name == "minutes":
        return Deadline(value)
    check_positive_int(name, value)
    return value
