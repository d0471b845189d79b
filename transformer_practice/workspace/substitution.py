"""The reader's functions in place of the package's."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from transformer_core import ops
from transformer_core.layers import feed_forward
from transformer_core.ops.attention import AttentionCache, shared, shared_attention_backward, under
from transformer_practice.engine.exercise import Exercise, titles_of
from transformer_practice.engine.planting import set_everywhere
from transformer_practice.engine.running import describe, limited
from transformer_practice.engine.runs import arrays_in
from transformer_practice.exercises import every_exercise
from transformer_practice.workspace.folder import Own

SECONDS = 30.0  # in which a function of the reader's has to come back
ATTENTION = "attention", "attention_with_dropout"
BIASED = {"linear": 1, "tied_readout": 0}  # and the axis of the weight that is as long as the bias
GROUPED = "grouped_attention"  # in the package, a case of attention
DOUBLE = ("rotary_frequencies",)  # what the package has in double precision, too
# Of what layers an exercise speaks; the methods of others stay the package's.
SPOKEN_OF: dict[str, Callable] = {
    "MultiHeadSelfAttention": lambda layer: (
        layer.key_heads == layer.heads and not layer.query_transform
    ),
    "TiedReadout": lambda layer: layer.bias is not None,
}


class OwnError(ValueError):
    """A reader's function has raised something in the midst of the package."""


class Used(NamedTuple):
    """What is seen of the reader's functions while the package runs with them.

    ``called`` are the exercises that were called, ``float64`` those that made it of ``float32``,
    ``not_finite`` the functions, in their order, that made NaN or infinity of finite numbers.
    ``package`` are the exercises whose functions were called, and are the package's.
    """

    called: set[str]
    float64: set[str]
    not_finite: list[str]
    package: set[str]


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
    if exercise.name == GROUPED:
        functions = ops.attention, ops.attention_backward
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
    it; attention in groups takes only what has groups.
    """
    seen = Used(set(), set(), [], set())
    new: dict[Place, Callable] = {}
    for own in owns:
        name, taken = own.exercise.name, places(own.exercise)
        usual = ATTENTION[0] if name == GROUPED else name
        there = [new.pop(p, noted(usual, p.function, seen.package)) for p in taken]
        titles = titles_of(own.exercise)
        functions: list[Callable | None] = []
        for place, title, function in zip(taken, titles, adapted(own), strict=False):
            with_cache = place is taken[0] and own.exercise.backward is not None
            functions.append(function and watched(name, title, function, seen, with_cache))
        if name == GROUPED:
            functions = in_groups(*functions, *there)
        elif name in SPOKEN_OF:
            functions = [
                each and for_some(SPOKEN_OF[name], each, other)
                for each, other in zip(functions, there, strict=True)
            ]
        new |= {p: each for p, each in zip(taken, functions, strict=False) if each}
    names = {own.exercise.name for own in owns}
    for exercise in every_exercise():
        if exercise.name not in names:
            for place in places(exercise):
                new.setdefault(place, noted(exercise.name, place.function, seen.package))
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
        double = name in DOUBLE or any_double((arguments, options))
        try:
            with limited(SECONDS):
                value = function(*arguments, **options)
            y, cache = value if with_cache else (value, None)
            if not (seen.not_finite or finite(y)) and finite((arguments, options)):
                seen.not_finite.append(title)
            if not double and any_double(y):
                seen.float64.add(name)
            if name not in DOUBLE:
                y = single(y)
            return (y, cache) if with_cache else y
        except OwnError:
            raise
        except (Exception, SystemExit) as error:
            raise OwnError(f"{title} {describe(from_the_reader(error))}") from error

    return run


def noted(name, function, names):
    """Let a function of the package say when it is called."""

    def run(*arguments, **options):
        names.add(name)
        return function(*arguments, **options)

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

    The package calls ``linear`` and ``tied_readout`` without a bias, too, of which the exercises
    say nothing: it is a bias of zeros, and has no gradient. It also calls ``attention`` with heads
    of queries that share a head of keys: their rows stand one under the other, as those of one
    head.
    """
    if own.exercise.name in BIASED:
        adapt_forward: Callable = partial(biased_forward, BIASED[own.exercise.name])
        adapt_backward, adapt_alone = biased_backward, without_bias
    elif own.exercise.name in ATTENTION:
        adapt_forward = attention_forward
        adapt_backward, adapt_alone = attention_backward, attention_backward_alone
    else:
        return own.functions
    forward, backward = own.functions
    if not forward:
        return None, backward and partial(adapt_alone, backward)
    return partial(adapt_forward, forward), backward and partial(adapt_backward, backward)


def biased_forward(axis, forward, x, weight, bias=None):
    none = bias is None
    y, cache = forward(x, weight, np.zeros(weight.shape[axis], x.dtype) if none else bias)
    return y, (cache, none)


def biased_backward(backward, dy, cache):
    own, none = cache
    dx, dweight, dbias = backward(dy, own)
    return dx, dweight, None if none else dbias


def without_bias(backward, dy, cache):
    dx, dweight, dbias = backward(dy, cache)
    return dx, dweight, dbias if cache.biased else None


def attention_forward(forward, query, key, value, keep=None, rate=0, rng=None):
    if not shared(query, key):
        output, cache = forward(query, key, value, keep, rate, rng)
        return output, (cache, query, key)
    over = query.shape[:-1]
    if keep is not None:
        keep = under(np.broadcast_to(keep, (*over, key.shape[-2])), key)
    output, cache = forward(under(query, key), key, value, keep, rate, rng)
    return output.reshape(*over, -1), (cache, query, key)


def attention_backward(backward, doutput, cache):
    own, query, key = cache
    if shared(query, key):
        doutput = under(doutput, key)
    dquery, *others = backward(doutput, own)
    return dquery.reshape(query.shape), *others


def attention_backward_alone(backward, doutput, cache):
    if shared(cache.query, cache.key):
        return shared_attention_backward(doutput, cache)  # which calls it for one head of each
    return backward(doutput, cache)


def for_some(spoken_of, own, other):
    """Return a method that is the reader's for some layers, and another for others."""

    def run(layer, *arguments, **options):
        method = own if spoken_of(layer) else other
        return method(layer, *arguments, **options)

    return run


class OfGroups(NamedTuple):
    """The cache of a reader's attention in groups."""

    own: Any


def in_groups(own, own_backward, forward, backward):
    """Return attention that is the reader's in groups, unless it drops weights.

    Where the backward pass is written alone, it has the package's cache.
    """

    def attend(query, key, value, keep=None, rate=0, rng=None):
        if own and shared(query, key) and not (rate and rng):
            output, cache = own(query, key, value, keep)
            return output, OfGroups(cache)
        return forward(query, key, value, keep, rate, rng)

    def attend_backward(doutput, cache):
        if isinstance(cache, OfGroups):
            return own_backward(doutput, cache.own)
        alone = not own and isinstance(cache, AttentionCache)
        if alone and shared(cache.query, cache.key):
            return own_backward(doutput, cache)
        return backward(doutput, cache)

    return [attend, attend_backward]
