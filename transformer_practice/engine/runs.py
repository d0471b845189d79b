"""What functions come to at every point of an exercise, and what mistakes come to there."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from transformer_core.layers import Layer
from transformer_practice.engine.exercise import Arrays, Exercise, Misfit
from transformer_practice.engine.planting import planted
from transformer_practice.engine.points import Point
from transformer_practice.engine.running import Failed, call
from transformer_practice.mistakes import MUTANTS, Mutant

TOLERANCE = 1e-8  # relative: by which right versions may differ, and no wrong one does
SMALL = 1e-3  # of its size at the generic point: below it, an output counts as zero
LEFT = ", as it is left"  # after the name of an argument that is changed


class Run(NamedTuple):
    """What a pass comes to at a point: its outputs, or why there are none."""

    outputs: Arrays
    failure: str = ""


class Runs(NamedTuple):
    """What both passes come to, a run for each point."""

    forward: list[Run]
    backward: list[Run]


@cache
def run_right(exercise: Exercise) -> Runs:
    """Run the package's own functions at every point of an exercise."""
    runs = Runs([], [])
    for point in exercise.points():
        run, cache = run_forward(exercise, exercise.forward, point, direct)
        runs.forward.append(run)
        if exercise.backward:
            runs.backward.append(run_backward(exercise, exercise.backward, point, cache, direct))
    return runs


def run_point(exercise: Exercise, point: Point, stage: str) -> Run:
    """Run the package's own pass, "forward" or "backward", at any point, if it soon ends there."""
    run, cache = run_forward(exercise, exercise.forward, point, briefly)
    if stage == "forward" or run.failure:
        return run
    return run_backward(exercise, exercise.backward, point, cache, briefly)


def run_mistake(exercise: Exercise, points: list[Point], *mistakes: Mutant) -> Runs:
    """Run the package with mistakes in it.

    Its backward pass is handed the right cache where its forward pass is wrong, and its own where
    that is right: the mistake may be in the cache.
    """
    runs = Runs([], [])
    forwards = [run_forward(exercise, exercise.forward, p, direct) for p in points]
    with ExitStack() as stack:
        for mistake in joined(mistakes):
            stack.enter_context(planted(mistake))
        for point, (right, right_cache) in zip(points, forwards, strict=True):
            run, cache = run_forward(exercise, exercise.forward, point, direct)
            runs.forward.append(run)
            cache = cache if runs_agree(run, right) else right_cache
            if exercise.backward:
                runs.backward.append(
                    run_backward(exercise, exercise.backward, point, cache, direct)
                )
    return runs


def joined(mistakes):
    """Join the mistakes of a file into one: planting the second would take the first away."""
    files: dict[str, Mutant] = {}
    for mistake in mistakes:
        if mistake.file in files:
            edits = files[mistake.file].edits | mistake.edits
            files[mistake.file] = mistake._replace(edits=edits)
        else:
            files[mistake.file] = mistake
    return files.values()


def mistakes_of(exercise: Exercise) -> Iterator[Mutant]:
    """Yield the mistakes that may be made in an exercise, each in all its forms.

    Those of its own file come first.
    """
    files = exercise.files()
    forms = [form for mistake in MUTANTS.values() for form in mistake.in_all_forms()]
    mistakes = [form for form in forms if form.file in files]
    yield from sorted(mistakes, key=lambda mistake: files.index(mistake.file))


@cache
def run_catalogue(exercise: Exercise) -> list[tuple[Mutant, Runs]]:
    """Run every mistake of an exercise that makes a difference at one of its points."""
    right, points = run_right(exercise), exercise.points()
    found = []
    for mistake in mistakes_of(exercise):
        runs = run_mistake(exercise, points, mistake)
        if not (
            passes_agree(runs.forward, right.forward)
            and passes_agree(runs.backward, right.backward)
        ):
            found.append((mistake, runs))
    return found


def run_forward(exercise, function, point, call):
    watched = Watched(call, exercise, list(point.arguments))
    try:
        with np.errstate(all="ignore"):
            outputs, cache = exercise.run_forward(function, point, watched)
    except (Failed, Misfit) as failure:
        return Run({}, str(failure)), None
    except EXPECTED as error:  # of a mistake that is planted
        return Run({}, f"raises {type(error).__name__}"), None
    return Run(outputs | watched.changed), cache


def run_backward(exercise, function, point, cache, call):
    names = ["cotangent", "cache"]
    watched = Watched(call, exercise, names if not exercise.of_a_layer else ["self", *names])
    try:
        with np.errstate(all="ignore"):
            outputs = exercise.run_backward(function, point, cache, watched)
    except (Failed, Misfit) as failure:
        return Run({}, str(failure))
    except EXPECTED as error:
        return Run({}, f"raises {type(error).__name__}")
    return Run(outputs | watched.changed)


EXPECTED = (ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError)


def direct(function, *arguments):
    return function(*arguments)


def briefly(function, *arguments):
    return call(function, *arguments, seconds=0.3)


class Watched:
    """Calls a function, and notices which of the arrays that it is given it changes."""

    def __init__(self, call: Callable, exercise: Exercise, names: list[str]):
        self.call, self.names = call, names
        self.allowed = exercise.in_place
        self.changed: Arrays = {}

    def __call__(self, function: Callable, *arguments: Any) -> Any:
        if self.allowed:
            return self.call(function, *arguments)
        before = {
            name: [array.copy() for array in arrays_in(value)]
            for name, value in zip(self.names, arguments, strict=True)
        }
        result = self.call(function, *arguments)
        for name, value in zip(self.names, arguments, strict=True):
            after = list(arrays_in(value))
            if len(after) != len(before[name]) or not all(map(equal, after, before[name])):
                self.changed[f"{name}{LEFT}"] = np.concatenate([np.zeros(0), *map(np.ravel, after)])
        return result


def arrays_in(value: Any) -> Iterator[np.ndarray]:
    """Yield the arrays that an argument is or holds: a layer its parameters."""
    if isinstance(value, Layer):
        value = value.parameters()
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from arrays_in(each)


def equal(one, other):
    """Tell whether two arrays are the same in every bit that counts."""
    return np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")


def passes_agree(runs: list[Run], others: list[Run], only: set[str] | None = None) -> bool:
    """Tell whether passes come to the same at every point, to rounding.

    Of an argument that is changed it does not matter where and into what.
    """
    if not others:  # there is no backward pass
        return True
    if all(run.failure for run in runs):  # nothing is known of what it would have come to
        return False
    if changed_arguments(runs, only) != changed_arguments(others, only):
        return False
    floors = {
        name: SMALL * max(map(largest, (runs[0].outputs.get(name), generic)))
        for name, generic in others[0].outputs.items()
    }
    return all(
        runs_agree(run, other, only, floors) for run, other in zip(runs, others, strict=True)
    )


def changed_arguments(runs, only=None):
    """Return the names of the arguments that are changed."""
    names = {name for run in runs for name in run.outputs if name.endswith(LEFT)}
    return names if only is None else only & names


def runs_agree(run, other, only=None, floors=None):
    """Tell whether a pass comes to the same at one point."""
    if run.failure or other.failure:
        return sort_of(run.failure) == sort_of(other.failure)
    names = run.outputs.keys() | other.outputs.keys()
    return all(
        name in run.outputs
        and name in other.outputs
        and close(run.outputs[name], other.outputs[name], (floors or {}).get(name, 0))
        for name in (names if only is None else only & names)
        if not name.endswith(LEFT)
    )


def sort_of(failure):
    """Return the sort of a failure: of numbers by its name, of shapes and all others by none."""
    numbers = "OverflowError", "ZeroDivisionError"
    named = (name for name in numbers if name in failure)
    return next(named, bool(failure))


def close(a: np.ndarray, b: np.ndarray, floor: float = 0.0) -> bool:
    """Tell whether two arrays are equal but for rounding; NaN equals NaN.

    ``floor`` is a size below which an array counts as zero.
    """
    if a.shape != b.shape:
        return False
    if a.dtype == b.dtype == bool:
        return np.array_equal(a, b)
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    scale = max(largest(a[finite]), largest(b[finite]), floor)
    gap = a[finite] - 1.0 * b[finite]  # 1.0: booleans have no difference
    return largest(gap) <= TOLERANCE * scale


def largest(array):
    """Return the largest size of an entry: 0 where there is none."""
    if array is None:
        return 0.0
    array = np.asarray(array, float)
    return float(np.abs(array[np.isfinite(array)]).max(initial=0))
