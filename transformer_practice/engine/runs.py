"""What functions come to at every point of an exercise, and what mistakes come to there."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from transformer_core.layers import Layer
from transformer_practice.engine.exercise import Arrays, Exercise, Misfit, number_or_array
from transformer_practice.engine.mutation import Tracer, mutations_of
from transformer_practice.engine.planting import planted
from transformer_practice.engine.points import Point
from transformer_practice.engine.running import Failed, call
from transformer_practice.mistakes import MUTANTS, Mutant

TOLERANCE = 1e-8  # relative: by which right versions may differ, and no wrong one does
SMALL = 1e-3  # of its size at the generic point: below it, an output counts as zero
MUTATIONS = 700  # small changes of an exercise that are tried at most
LEFT = ", as it is left"  # after the name of an argument that is changed
SELF = f"self{LEFT}"


class Run(NamedTuple):
    """What a pass comes to at a point: its outputs, or why there are none."""

    outputs: Arrays
    failure: str = ""


NOT_RUN = Run({}, "is not run: its forward pass is wrong")


class Runs(NamedTuple):
    """What both passes come to, a run for each point."""

    forward: list[Run]
    backward: list[Run]


@cache
def points_of(exercise: Exercise) -> list[Point]:
    """Return the points of an exercise, which are drawn once."""
    return exercise.points()


@cache
def at_points(exercise: Exercise, numbers: tuple[int, ...]) -> Exercise:
    """Return an exercise at some of its points alone."""
    points = points_of(exercise)
    if len(numbers) == len(points):
        return exercise
    return replace(exercise, points=lambda: [points[at] for at in numbers])


@cache
def run_right(exercise: Exercise) -> Runs:
    """Run the package's own functions at every point of an exercise, once."""
    return run_package(exercise)


def run_package(exercise: Exercise) -> Runs:
    """Run the package's own functions at every point of an exercise, with whatever is planted."""
    runs = Runs([], [])
    for point in points_of(exercise):
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


class Changed:
    """The package with something wrong in it: what it comes to at each point, run when asked for.

    Its backward pass is handed the right cache where its forward pass is wrong, and its own where
    that is right: the mistake may be in the cache.
    """

    def __init__(self, exercise: Exercise, about: Any, *planted: Callable, call: Callable):
        self.exercise, self.about, self.planted, self.call = exercise, about, planted, call
        self.points, self.right = points_of(exercise), run_right(exercise)
        self.known: dict[tuple[int, str], Run] = {}
        self.changes_forward = False  # as far as is known

    def at(self, i: int, stage: str, after: bool = False) -> Run:
        """Return what a pass comes to at a point.

        What comes ``after`` a forward pass that is right is not run where that is wrong anywhere.
        """
        if (i, stage) not in self.known:
            run = NOT_RUN if after and self.changes_forward else self.run(i, stage, after)
            if run is NOT_RUN:
                return run
            self.known[i, stage] = run
        return self.known[i, stage]

    def run(self, i, stage, after):
        exercise, point = self.exercise, self.points[i]
        with ExitStack() as stack:
            for plant in self.planted:
                stack.enter_context(plant())
            run, cache = run_forward(exercise, exercise.forward, point, self.call)
            self.known[i, "forward"] = run
            if stage == "forward":
                return run
            if runs_agree(run, self.right.forward[i]):
                return run_backward(exercise, exercise.backward, point, cache, self.call)
        self.changes_forward = True
        if after:
            return NOT_RUN
        _, cache = run_forward(exercise, exercise.forward, point, direct)
        with ExitStack() as stack:
            for plant in self.planted:
                stack.enter_context(plant())
            return run_backward(exercise, exercise.backward, point, cache, self.call)

    def runs(self, stage: str, after: bool = False) -> list[Run]:
        """Return what a pass comes to at every point."""
        return [self.at(i, stage, after) for i in range(len(self.points))]


@cache
def catalogue_of(exercise: Exercise) -> list[Changed]:
    """Return the package with each mistake that may be made in an exercise, in all its forms."""
    return [
        Changed(exercise, mistake, partial(planted, mistake), call=direct)
        for mistake in mistakes_of(exercise)
    ]


def both_of(exercise: Exercise, *mistakes: Mutant) -> Changed:
    """Return the package with several mistakes."""
    files: dict[str, Mutant] = {}
    for mistake in mistakes:  # planting a second in a file would take the first away
        if mistake.file in files:
            edits = files[mistake.file].edits | mistake.edits
            files[mistake.file] = mistake._replace(edits=edits)
        else:
            files[mistake.file] = mistake
    plants = [partial(planted, mistake) for mistake in files.values()]
    return Changed(exercise, mistakes[0], *plants, call=direct)


class Mutations:
    """The package with each small change of a pass of an exercise, made when it is asked for.

    Changes of what the pass itself runs through come first.
    """

    def __init__(self, exercise: Exercise, stage: str):
        self.made: list[Changed] = []
        self.making = self.make(exercise, stage)

    def __iter__(self) -> Iterator[Changed]:
        for i in range(MUTATIONS):
            if i == len(self.made):
                try:
                    self.made.append(next(self.making))
                except StopIteration:
                    return
            yield self.made[i]

    def make(self, exercise, stage):
        if exercise.plain:
            yield from self.make(as_the_page_has_it(exercise), stage)
        called = called_by(exercise)
        for function in sorted(called, key=lambda each: stage not in called[each].stages):
            alike = partial(names_alike, function, with_fields(called[function].local))
            call = briefly if "while " in inspect.getsource(function) else direct
            for mutation in mutations_of(function, alike):
                yield Changed(exercise, mutation, mutation.planted, call=call)


def as_the_page_has_it(exercise: Exercise) -> Exercise:
    """Return an exercise with its plain functions for the package's own."""
    forward, *backward = exercise.plain
    return replace(exercise, plain=(), forward=forward, backward=backward[0] if backward else None)


@cache
def mutations(exercise: Exercise, stage: str) -> Mutations:
    """Return the small changes of a pass, made once."""
    return Mutations(exercise, stage)


class Called(NamedTuple):
    """Of a function of the package: its local variables, and the passes that run through it."""

    local: dict[str, Any]
    stages: set[str]


def names_alike(function, local, name):
    """Return what may stand for a variable, or for a field of one: others of its sort and shape.

    For a whole number one more or less, too; and for a constant of the module ten times it.
    """
    if isinstance(function.__globals__.get(name), float):
        return [f"10 * {name}", f"{name} / 10"]
    value = local.get(name)
    near = [f"({name} - 1)", f"({name} + 1)"] if type(value) is int else []
    return near + [n for n, other in local.items() if n != name and are_alike(value, other)]


def are_alike(one, other):
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.shape == other.shape != ()
    return type(one) is type(other) and (
        isinstance(one, int | float) and one is not other or hasattr(one, "_fields")
    )


def with_fields(local: dict[str, Any]) -> dict[str, Any]:
    """Return local variables, with the fields of tuples and what arrays and numbers a layer has."""
    found = dict(local)
    for name, value in local.items():
        fields = value._asdict() if hasattr(value, "_fields") else {}
        if name == "self":
            fields = {n: v for n, v in vars(value).items() if isinstance(v, np.ndarray | float)}
        found |= {f"{name}.{field}": each for field, each in fields.items()}
    return found


@cache
def called_by(exercise: Exercise) -> dict[FunctionType, Called]:
    """Return the package's functions that an exercise runs through.

    Those of its own file come first.
    """
    module = exercise.forward.__module__
    forward, backward = Tracer(module), Tracer(module)
    for point in points_of(exercise):
        _, cache = run_forward(exercise, exercise.forward, point, forward)
        if exercise.backward:
            run_backward(exercise, exercise.backward, point, cache, backward)
    given = [value for point in points_of(exercise) for value in point.arguments.values()]
    aside = [getattr(value, "func", value) for value in given if callable(value)]
    found: dict[FunctionType, Called] = {}
    for stage, tracer in (("forward", forward), ("backward", backward)):
        for function, local in tracer.functions().items():
            if function not in aside and not function.__name__.startswith("check"):
                found.setdefault(function, Called(local, set())).stages.add(stage)
    return dict(sorted(found.items(), key=lambda each: each[0].__module__ != module))


def values_at(exercise: Exercise, point: Point, stage: str) -> dict[str, Any]:
    """Name what the package computes at a point: arguments, what it keeps, local variables."""

    tracer = Tracer(exercise.forward.__module__)
    _, cache = run_forward(exercise, exercise.forward, point, tracer)
    if stage == "backward":
        run_backward(exercise, exercise.backward, point, cache, tracer)
    found = {name: value for name, value in point.arguments.items() if name != "self"}
    for function, local in tracer.functions().items():
        if function in (exercise.forward, exercise.backward):
            names = {id(value): name for name, value in local.items()}  # an array's last name
            for name, value in local.items():
                if names[id(value)] == name:
                    found.setdefault(name, value)
    return found


def mistakes_of(exercise: Exercise) -> Iterator[Mutant]:
    """Yield the mistakes that may be made in an exercise, each in all its forms.

    Those of its own file come first, then the others in the order in which it runs through them.
    """
    forms = [form for mistake in MUTANTS.values() for form in mistake.in_all_forms()]
    for file in files_of(exercise):
        yield from (form for form in forms if form.file == file)


def files_of(exercise: Exercise) -> list[str]:
    """Return the files of ``transformer_core`` that an exercise runs through, its own first."""
    modules = [exercise.forward, *called_by(exercise)]
    names = (function.__module__.partition("transformer_core.")[2] for function in modules)
    return list(dict.fromkeys(name.replace(".", "/") + ".py" for name in names if name))


def run_forward(exercise, function, point, call):
    watched = Watched(call, exercise, list(point.arguments))
    try:
        with np.errstate(all="ignore"):
            outputs, cache = exercise.run_forward(function, point, watched)
            outputs = {name: number_or_array(name, array) for name, array in outputs.items()}
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


EXPECTED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    NameError,
    RuntimeError,
    StopIteration,
    TypeError,
    ValueError,
)


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
            try:
                after = list(arrays_in(value))
            except ValueError:  # a layer has been given what no layer holds
                after = []
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
    floors = floors_of(runs[0], others[0], only=only)
    return all(
        runs_agree(run, other, only, floors) for run, other in zip(runs, others, strict=True)
    )


def changed_arguments(runs, only=None):
    """Return the names of the arguments that are changed."""
    names = {name for run in runs for name in run.outputs if name.endswith(LEFT)}
    return names if only is None else only & names


def floors_of(*runs: Run, only: set[str] | None = None) -> dict[str, float]:
    """Return the size below which each output counts as zero, of what it is at the first point."""
    names = {name for run in runs for name in run.outputs} if only is None else only
    return {name: SMALL * max(largest(run.outputs.get(name)) for run in runs) for name in names}


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
    """Return the sort of a failure: of numbers and of form by its name, all others by none."""
    sorts = "OverflowError", "ZeroDivisionError", "returns"
    named = (name for name in sorts if name in failure)
    return next(named, bool(failure))


def close(a: np.ndarray, b: np.ndarray, floor: float = 0.0) -> bool:
    """Tell whether two arrays are equal but for rounding; NaN equals NaN.

    ``floor`` is a size below which an array counts as zero.
    """
    if a.shape != b.shape or (a.dtype == bool) != (b.dtype == bool):
        return False
    if a.dtype == bool:
        return np.array_equal(a, b)
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    scale = max(largest(a[finite]), largest(b[finite]), floor)
    return largest(a[finite] - b[finite]) <= TOLERANCE * scale


def largest(array):
    """Return the largest size of an entry: 0 where there is none."""
    if array is None:
        return 0.0
    array = np.asarray(array, float)
    return float(np.abs(array[np.isfinite(array)]).max(initial=0))
