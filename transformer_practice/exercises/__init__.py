"""What a reader may write and have examined: one file a chapter, and one of what is told of it.

``layer_norm.py`` has a list EXERCISES, in the order in which to write them; ``layer_norm.toml``
beside it has the chapter, and what is told of each exercise: shapes, hints, and those equations and
signatures that are not read from its functions.
"""

import sys
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from transformer_practice.engine.exercise import Exercise


@cache
def every_exercise() -> tuple[Exercise, ...]:
    """Return the exercises in the order of the book."""
    exercises = []
    for path in Path(__file__).parent.glob("*.toml"):
        told = tomllib.loads(path.read_text(encoding="utf-8"))
        chapter = told.pop("chapter")
        for exercise in import_module(f"{__name__}.{path.stem}").EXERCISES:
            words = {about: tuple(texts) for about, texts in told.pop(exercise.name).items()}
            exercises.append(replace(exercise, chapter=chapter, **words))
        if told:
            raise ValueError(f"{path.name}: expected exercises of {path.stem}.py, got {set(told)}")
    return tuple(sorted(exercises, key=lambda exercise: exercise.chapter))


@cache
def exercises_in(path: Path) -> tuple[Exercise, ...]:
    """Return the exercises of another course: the list ``EXERCISES`` of a file of Python.

    Raises
    ------
    ValueError
        If the file has no such list.
    """
    name = f"course_{path.stem}"
    spec = spec_from_file_location(name, path)
    if not path.is_file() or not spec or not spec.loader:
        raise ValueError(f"{path}: expected a file of Python with a list EXERCISES, found none")
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    exercises = getattr(module, "EXERCISES", None)
    if not isinstance(exercises, list | tuple) or not exercises:
        raise ValueError(f"{path}: expected a list EXERCISES, got {exercises!r}")
    for each in exercises:
        if not isinstance(each, Exercise):
            raise ValueError(f"{path}: expected an Exercise in EXERCISES, got {each!r}")
    return tuple(exercises)


def find_exercise(name: str, exercises: Sequence[Exercise] = ()) -> Exercise:
    """Return the exercise of a name, of this book unless others are given.

    Raises
    ------
    ValueError
        If there is none.
    """
    known = {exercise.name: exercise for exercise in exercises or every_exercise()}
    if name not in known:
        near = get_close_matches(name, known)
        asked = f": did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(
            f"name: expected one of the exercises, such as {next(iter(known))}, got {name!r}{asked}"
        )
    return known[name]
