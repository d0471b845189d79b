"""The reader's functions in place of the package's."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from transformer_core.layers import feed_forward
from transformer_practice.engine.exercise import Exercise, titles_of
from transformer_practice.engine.planting import set_everywhere
from transformer_practice.engine.running import describe, limited
from transformer_practice.engine.runs import arrays_in
from transformer_practice.workspace.folder import Own

SECONDS = 30.0  # in which a function of the reader's has to come back


class OwnError(ValueError):
    """A reader's function has raised something in the midst of the package."""


class Used(NamedTuple):
    """What is seen of the reader's functions while the package runs with them.

    ``called`` are the exercises that were called, ``float64`` those that made it of ``float32``,
    ``not_finite`` the functions, in their order, that made NaN or infinity of finite numbers.
    """

    called: set[str]
    float64: set[str]
    not_finite: list[str]


class Place(NamedTuple):
    """Where a function of the package stands."""

    owner: Any  # a module, or a class
    name: str

    @property
    def function(self) -> Callable:
        return vars(self.owner)[self.name]


def places(exercise: Exercise) -> list[Place]:
    """Return where an exercise's functions stand in the package; none if it does not use them."""
    functions = (exercise.forward, exercise.backward)
    return [place_of(function) for function in functions if function and used(function)]


def used(function):
    return not function.__module__.startswith("transformer_practice")


def place_of(function):
    owner: ModuleType | type = sys.modules[function.__module__]
    *classes, name = function.__qualname__.split(".")
    for each in classes:
        owner = vars(owner)[each]
    return Place(owner, name)


@contextmanager
def in_the_package(owns: Sequence[Own]) -> Iterator[Used]:
    """Run the package with a reader's functions, and put its own back afterwards.

    Where a backward pass is written alone, the package's forward pass stays, with its cache; a
    forward pass needs its backward pass. Where two exercises have one place, the later one takes
    it.
    """
    seen = Used(set(), set(), [])
    new: dict[Place, Callable] = {}
    for own in owns:
        taken = places(own.exercise)
        new = {place: function for place, function in new.items() if place not in taken}
        titles = titles_of(own.exercise)
        for place, title, function in zip(taken, titles, adapted(own), strict=False):
            if function:
                with_cache = place is taken[0] and own.exercise.backward is not None
                new[place] = watched(own.exercise.name, title, function, seen, with_cache)
    old = {place: place.function for place in new}
    activations = feed_forward.ACTIVATIONS
    by_old = {old[place]: function for place, function in new.items()}
    pairs = {
        name: tuple(by_old.get(function, function) for function in pair)
        for name, pair in activations.items()
    }
    set_everywhere([(*place, function) for place, function in new.items()])
    set_everywhere([(feed_forward, "ACTIVATIONS", pairs)])
    try:
        yield seen
    finally:
        set_everywhere([(*place, function) for place, function in old.items()])
        set_everywhere([(feed_forward, "ACTIVATIONS", activations)])


def watched(name, title, function, seen, with_cache):
    """Let a function say when it is called and what it raises, and return single precision.

    Trainings are in float32; the cache of a forward pass is the reader's.
    """

    def single(value):
        if type(value) is tuple:
            return tuple(map(single, value))
        if type(value) is dict:
            return {key: single(array) for key, array in value.items()}
        return value.astype(np.float32) if is_double(value) else value

    def run(*arguments, **options):
        seen.called.add(name)
        given = any_double((arguments, options))
        try:
            with limited(SECONDS):
                value = function(*arguments, **options)
            y, cache = value if with_cache else (value, None)
            if not (seen.not_finite or finite(y)) and finite((arguments, options)):
                seen.not_finite.append(title)
            if not given and any_double(y):
                seen.float64.add(name)
            return (single(y), cache) if with_cache else single(y)
        except OwnError:
            raise
        except (Exception, SystemExit) as error:
            raise OwnError(f"{title} {describe(from_the_reader(error))}") from error

    return run


def is_double(value):
    return isinstance(value, np.ndarray) and value.dtype == np.float64


def any_double(value):
    """Tell whether there is an array in double precision in what is given or returned."""
    return any(map(is_double, arrays_in(value)))


def finite(value):
    """Tell whether all numbers of what is given or returned are finite."""
    return all(np.isfinite(array).all() for array in arrays_in(value) if array.dtype.kind == "f")


def from_the_reader(error):
    """Return an error without the calls that led to the reader's code."""
    traceback = error.__traceback__
    while traceback and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    return error.with_traceback(traceback)


def adapted(own: Own) -> tuple[Callable | None, ...]:
    """Return an exercise's functions as the package calls them.

    The package calls ``linear`` without a bias, too, of which the exercise says nothing: it is a
    bias of zeros, and has no gradient.
    """
    if own.exercise.name != "linear":
        return own.functions
    forward, backward = own.functions
    if not forward:
        return None, backward and partial(without_bias, backward)
    return partial(linear_forward, forward), backward and partial(linear_backward, backward)


def linear_forward(forward, x, weight, bias=None):
    none = bias is None
    y, cache = forward(x, weight, np.zeros(weight.shape[1], x.dtype) if none else bias)
    return y, (cache, none)


def linear_backward(backward, dy, cache):
    own, none = cache
    dx, dweight, dbias = backward(dy, own)
    return dx, dweight, None if none else dbias


def without_bias(backward, dy, cache):
    dx, dweight, dbias = backward(dy, cache)
    return dx, dweight, dbias if cache.biased else None
