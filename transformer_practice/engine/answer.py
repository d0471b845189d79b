"""A reader's answer: whatever the examiner wants to know of the functions, it asks here.

What is asked and what is answered are names, numbers and arrays, so that an answer may be in
another process.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from transformer_core.gradient_check import central_difference
from transformer_practice.engine.exercise import Exercise, Misfit, OpExercise, pair, titles_of
from transformer_practice.engine.mutation import Mutation, Tracer
from transformer_practice.engine.points import Point
from transformer_practice.engine.repair import Search, said_of
from transformer_practice.engine.running import ENDLESS, SECONDS, Failed, call
from transformer_practice.engine.runs import (
    Run,
    Runs,
    arrays_in,
    direct,
    run_backward,
    run_forward,
    runs_agree,
)

PROBES = 12  # entries of each array that central differences measure


class Slopes(NamedTuple):
    """Derivatives of a forward pass by central differences, or why there are none.

    ``of`` has for each gradient the flat indices of some entries, and their slopes.
    """

    of: dict[str, tuple[np.ndarray, np.ndarray]]
    failure: str = ""


class Answer:
    """What a reader has written of an exercise.

    Parameters
    ----------
    exercise : Exercise
    forward, backward : callable, optional
        ``backward`` alone is handed the package's own cache; beside a ``forward``, whatever that
        returned as its second value.
    """

    def __init__(
        self, exercise: Exercise, forward: Callable | None = None, backward: Callable | None = None
    ):
        self.exercise = exercise
        self.forward, self.backward = forward, backward

    def alone(self, stage: str) -> "Answer":
        """Return the answer without its other function."""
        return Answer(self.exercise, **{stage: getattr(self, stage)})

    def misfits(self) -> list[str]:
        """Say of each function that takes other arguments than its exercise asks for which."""
        own = self.forward, self.backward
        misfits = (misfit(self.exercise, at, each) for at, each in enumerate(own) if each)
        return [said for said in misfits if said]

    def runs(self) -> Runs:
        """Run the functions at every point.

        Raises
        ------
        NotWritten
            If a function is a stub.
        """
        return self.runs_at(self.exercise.points())

    def runs_at(
        self, points: Sequence[Point], tracer: Callable | None = None, seconds: float = SECONDS
    ) -> Runs:
        """Run the functions at any points, as :meth:`runs` does, called through a tracer."""
        calls = partial(call, *([tracer] if tracer else []), seconds=seconds)
        runs = Runs([], [])
        for point in points:
            if stuck(runs.forward):  # at the other points, too, by all odds
                run, cache = runs.forward[-1], None
                runs.forward.append(run)
            elif self.forward:
                run, cache = run_forward(self.exercise, self.forward, point, calls)
                runs.forward.append(run)
            else:
                run, cache = run_forward(self.exercise, self.exercise.forward, point, direct)
            if stuck(runs.backward):
                runs.backward.append(runs.backward[-1])
            elif self.backward and not run.failure:
                runs.backward.append(
                    run_backward(self.exercise, self.backward, point, cache, calls)
                )
            elif self.backward:
                runs.backward.append(Run({}, "there is no cache: the forward pass fails"))
        return runs

    def moved(self, stage: str, point: str, name: str, array: Any) -> Run:
        """Run a pass at the point of a name, an argument or the cotangent being another array."""
        (at,) = self.points_of([point])
        runs = self.runs_at([at.with_array(name, array)])
        return (runs.forward if stage == "forward" else runs.backward)[0]

    def values(self, stage: str, point: str) -> dict[str, np.ndarray]:
        """Return the arrays among the local variables of a pass, as it leaves them at a point."""
        function = getattr(self, stage)
        tracer = Tracer(str(function.__module__))
        (at,) = self.points_of([point])
        self.runs_at([at], tracer)
        local = tracer.codes.get(getattr(inspect.unwrap(function), "__code__", None), {})
        return {name: value for name, value in local.items() if isinstance(value, np.ndarray)}

    def repairs(
        self,
        stage: str,
        points: Sequence[str],
        right: Sequence[Run],
        apart: Sequence[str],
        most: int,
    ) -> dict[str, list[str]]:
        """Find small changes of the functions with which a pass, or an output of it, is right.

        As :class:`Search` does; "two" is a pair of changes, where there is no single one; of whole
        numbers alone, none, for there are pairs that come to them by chance. "generic" is a change
        with which the pass is right but at special points, and the names of these.
        """
        search = Search(self, stage, self.points_of(points), right, apart)
        found = {name: list(map(said_of, some)) for name, some in search.single(most).items()}
        if "" not in found and has_fractions(right) and (two := search.two()):
            found["two"] = [said_of(two)]
        elif "" not in found and (generic := search.at_generic_points()):
            found["generic"] = [said_of(generic[0]), *generic[1]]
        return found

    def mended(self, points: Sequence[str], right: Sequence[Run]) -> "Mended | None":
        """Return the answer with a small change that mends its forward pass, if there is one."""
        found = Search(self, "forward", self.points_of(points), right).single(1)
        return Mended(self, *found[""]) if found else None

    def points_of(self, names: Sequence[str]) -> list[Point]:
        """Return points by their names."""
        named = {each.name: each for each in self.exercise.points()}
        return [named[name] for name in names]

    def write(self, stage: str, point: str) -> str:
        """Return the line in which a pass changes an array that it is given, if it is seen."""

        def locked(function, *arguments):
            for array in arrays_in(arguments):
                array.flags.writeable = False
            return function(*arguments)

        (at,) = self.points_of([point])
        runs = self.runs_at([at], locked)
        failure = (runs.forward if stage == "forward" else runs.backward)[0].failure
        _, line, text = failure.partition("line ")
        return (line + text).partition("\n")[0].rstrip(": ") if "read-only" in failure else ""

    def slopes(self) -> Slopes:
        """Measure the derivatives of the forward pass at the first point: some of each array."""
        try:
            with np.errstate(all="ignore"):
                return Slopes(call(self.differentiate, seconds=20.0))
        except (Failed, Misfit) as failure:
            return Slopes({}, str(failure))

    def differentiate(self):
        exercise, point = self.exercise, self.exercise.points()[0]
        arguments, run = exercise.arguments(point), exercise.by_position(self.forward)
        rng = np.random.default_rng(0)

        def loss(_):
            y, _ = pair(run(*exercise.again(point, arguments)), "y, cache")
            return float((point.cotangent * y).sum())

        slopes = {}
        for name, array in exercise.live(point, arguments).items():
            at = np.arange(array.size)
            if array.size > PROBES:
                at = rng.choice(array.size, PROBES, replace=False)
            slopes[name] = at, central_difference(loss, array, at=at)
        return slopes

    def later(self) -> str:
        """Say when the backward pass comes to something else: after another forward pass, or twice.

        A model calls a layer for several batches before it goes back, and so does code that cuts a
        batch.
        """
        exercise, points = self.exercise, self.exercise.points()
        first, *_ = self.runs_at(points[:1]).backward
        times = "after a forward pass on another input", "a second time with the same cache"
        when = times[0]
        try:
            with np.errstate(all="ignore"):
                _, cache = exercise.run_forward(self.forward, points[0], call)
                exercise.run_forward(self.forward, points[-1], call)
                for when in times:
                    found = exercise.run_backward(self.backward, points[0], cache, call)
                    if not runs_agree(Run(found), Run(first.outputs)):
                        return f"it is right, but not {when}."
        except (Failed, Misfit) as error:
            return f"it is right, but {when} it {error}"
        return ""

    def wide(self) -> list[str]:
        """Name the outputs of 64 bits where all arrays that go in are of 32."""
        exercise, point = self.exercise, self.exercise.points()[0]
        try:
            with np.errstate(all="ignore"):
                found, cache = exercise.run_forward(self.forward, point, call, np.float32)
                if self.backward:
                    narrow = point._replace(cotangent=np.float32(point.cotangent))
                    found |= exercise.run_backward(self.backward, narrow, cache, call, np.float32)
        except (Failed, Misfit):
            return []
        return [name for name, array in found.items() if array.ndim and array.dtype.itemsize > 4]


class Mended(Answer):
    """An answer with a change of its forward pass, for whatever its backward pass is asked."""

    def __init__(self, answer: Answer, change: Mutation):
        super().__init__(answer.exercise, answer.forward, answer.backward)
        self.change = change

    def runs_at(self, *arguments: Any, **options: Any) -> Runs:
        with self.change.planted():
            return super().runs_at(*arguments, **options)


def has_fractions(runs):
    """Tell whether not all outputs are whole numbers or truth values."""
    return any((array % 1).any() for run in runs for array in run.outputs.values() if array.size)


def stuck(runs):
    """Tell whether a pass has not come to its end at the last point."""
    return bool(runs) and ENDLESS in runs[-1].failure


def misfit(exercise, at, function):
    """Say what is wrong with the arguments that a function takes; nothing if they fit."""
    expected = exercise.functions[at].signature
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of what is written in C
        return ""
    numbers = {len(parsed(expected).parameters)}
    if type(exercise) is OpExercise and at == 0:  # not all of them, in its chapter
        numbers.add(max(len(point.arguments) for point in exercise.points()))
    if not any(takes(signature, number) for number in numbers):
        return f"{titles_of(exercise)[at]}: expected the arguments ({expected}), got {signature}."
    return ""


def takes(signature, number):
    """Tell whether a function can be called with so many arguments."""
    try:
        signature.bind(*range(number))
    except TypeError:
        return False
    return True


def parsed(text):
    """Read a signature as it stands in an exercise."""
    space: dict = {}
    exec(f"def function({text}): pass", {"np": np}, space)
    return inspect.signature(space["function"])
