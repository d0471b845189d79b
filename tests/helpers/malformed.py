"""Malformed arguments: what becomes of a valid call of which one argument is spoiled.

A room's table has a line for each public name: the valid arguments, each with its kind. What an
argument of one name is in the whole room is said once; a backward pass needs no line, it is
called after the forward pass of the line before it. A function may refuse a spoiled argument by
a ``ValueError`` that says what it expected, or return what it documents; it has to refuse one
whose shape, dtype or value its kind rules out. It never changes what it is given.
"""

import inspect
import re
import warnings
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import numpy as np
import pytest

from transformer_core.ranks import on_threads

SIZES = {"B": 2, "B1": 2, "T": 3, "S": 4, "H": 2, "K": 3, "D": 6, "F": 7, "I": 5, "V": 9}
SIZES |= {"N": 4, "M": 500}
MESSAGE = re.compile(r".+: expected .+", re.DOTALL)

NOTHING = [None, [], {}, "text", 0.5, float("nan"), object]
DTYPES = "int64 uint8 bool object complex128 float16 longdouble U8 S8 datetime64[s]".split()
REALS = "int64 uint8 bool float16 longdouble".split()


class Floats:
    """An array of floating-point numbers, with its axes: letters, numbers, a leading ``...``."""

    dtypes = "float16 complex128 longdouble".split()  # that may do
    entries = (np.nan, np.inf, -np.inf, 1e30, -1e300, 5e-324)  # that may do, all of them
    broadcasts = False

    def __init__(self, axes="", optional=False, listed=False, ok=lambda value: True, dtypes=None):
        self.axes = axes.split()
        self.dtypes = self.dtypes if dtypes is None else dtypes
        self.optional, self.listed, self.fine = optional, listed, ok

    def shape(self):
        leading = ["B", "N"] if self.axes[:1] == ["..."] else []
        axes = leading + self.axes[bool(leading) :]
        return tuple(SIZES[a] if a in SIZES else int(a) for a in axes)

    def valid(self, rng):
        return rng.normal(size=self.shape())

    def spoils(self, value):
        """Yield spoiled values, and whether each has to be refused whatever its shape."""
        yield from ((other, False) for other in other_shapes(value))
        yield value.tolist(), not self.listed
        yield from ((nothing, not (self.optional and nothing is None)) for nothing in NOTHING)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield from ((value.astype(dtype), dtype not in self.dtypes) for dtype in DTYPES)
        for entry in self.entries:
            spoiled = np.array(value, np.result_type(value, np.min_scalar_type(entry)))
            spoiled.flat[value.size // 2] = entry
            yield spoiled, not self.fine(entry)


class Ids(Floats):
    """An array of whole numbers below a bound."""

    dtypes = "int64 uint8".split()
    entries = (-1, -(2**40), 2**31, 2**40, 2**62, 0.0, 1.5, np.nan)

    def __init__(self, axes, below=9, least=1, ok=lambda entry: False, **settings):
        super().__init__(axes, ok=ok, **settings)
        self.least, self.below = least, below

    def valid(self, rng):
        return rng.integers(self.least, self.below, self.shape())


class Answers(Ids):
    """Whole numbers of which only those of the masked positions are read."""

    def __init__(self, axes, below=9):
        super().__init__(axes, below, ok=lambda entry: isinstance(entry, int))


class Weights(Floats):
    """An array of real numbers from 0 on."""

    dtypes = REALS
    entries = (-1, np.nan, np.inf, 0, 1e300)

    def __init__(self, axes, optional=True):
        super().__init__(axes, optional, ok=lambda entry: 0 <= entry < np.inf)

    def valid(self, rng):
        return rng.random(self.shape()) + 1


class Booleans(Floats):
    """An array of booleans."""

    dtypes = ["bool"]
    entries = (2, 0.5, -1, np.nan)

    def __init__(self, axes, optional=False):
        super().__init__(axes, optional, ok=lambda entry: False)

    def valid(self, rng):
        value = rng.random(self.shape()) < 0.7
        value.flat[0] = True
        return value


class Mask(Booleans):
    """A boolean array that may be broadcast to the axes, which other arguments have."""

    broadcasts = True

    def __init__(self, axes):
        super().__init__(axes, optional=True)


class Setting:
    """A single number, with the test whether it will do."""

    values = (
        0, 1, -1, 2, 2.5, -0.1, 1e-400, 1e300, True, None, "1", "", b"1", 1j, [1], (), {},
        float("nan"), float("inf"), -float("inf"), 2**31, 2**40, 10**30, -(2**70),
        np.float32(0.5), np.int8(3), np.array(1), np.array([1.0, 2.0]), np.complex64(1j),
    )  # fmt: skip

    def __init__(self, value, ok, optional=False):
        self.value, self.ok, self.optional = value, ok, optional

    def valid(self, rng):
        return self.value

    def spoils(self, value):
        for spoiled in self.values:
            yield spoiled, not isinstance(spoiled, np.ndarray) and not self.may(spoiled)
        yield np.array([1.0, 2.0]), True

    def may(self, value):
        single = isinstance(value, (int, float, np.number))
        return single and np.isrealobj(value) and self.ok(value) or self.optional and value is None


def count(value, ok, optional=False):
    """A whole number, with the test whether it will do."""
    return Setting(
        value, lambda v: isinstance(v, (int, np.integer)) and v is not True and ok(v), optional
    )


def whole(value, least=1, optional=False):
    """A whole number: a size from 1 on, which has a limit, or a number from 0 on."""
    return count(value, lambda v: least <= v < (2**31 if least else np.inf), optional)


def rate(value):
    return Setting(value, lambda v: 0 <= v < 1)


def positive(value, optional=False):
    return Setting(value, lambda v: 0 < v < np.inf, optional)


def not_negative(value, optional=False):
    return Setting(value, lambda v: 0 <= v < np.inf, optional)


class Scalar(Setting):
    """A number of any size, real or complex."""

    def __init__(self, value):
        super().__init__(value, None)

    def may(self, value):
        return isinstance(value, (int, float, complex, np.number))


class Choice:
    """One of a few values; all others are refused."""

    def __init__(self, value, others=("", "nonsense", None, 3, [], {}, 0.5, b"pre")):
        self.value, self.others = value, others

    def valid(self, rng):
        return self.value

    def spoils(self, value):
        return ((other, True) for other in self.others)


class Named:
    """A dict of arrays whose names and shapes are given, or those of another dict."""

    def __init__(self, free=False, **kinds):
        self.free, self.kinds = free, kinds_of(kinds)

    def valid(self, rng):
        return {name: kind.valid(rng) for name, kind in self.kinds.items()}

    def spoils(self, value):
        for other in (None, [], list(value.values()), 3, "text", value["a"]):
            yield other, True
        yield {name: array for name, array in value.items() if name != "a"}, not self.free
        yield value | {"unknown": value["a"]}, not self.free
        for name, kind in self.kinds.items():
            for entry, refused in kind.spoils(value[name]):
                other = np.shape(value[name]) != np.shape(entry)
                yield value | {name: entry}, refused or other and not self.free


class Whatever:
    """An argument that is not spoiled: a function that makes it of a generator."""

    def __init__(self, make):
        self.valid = make


RNG = Whatever(lambda rng: np.random.default_rng(3))
DTYPE = Choice("float64", ["int64", int, bool, str, "U3", "nonsense", 3, [], "datetime64[s]"])
WORDS = {kind.__name__.lower(): kind for kind in (Ids, Answers, Weights, Booleans, Mask)} | {
    "anything": partial(Floats, dtypes=DTYPES),
    "doubles": partial(Floats, dtypes=()),
    "numbers": partial(Floats, dtypes=[*REALS, "complex128"]),
    "reals": partial(Floats, dtypes=REALS),
}
# What an argument is in every room, unless a room or a line says otherwise.
NAMES = {
    "rng": RNG, "dtype": DTYPE, "rate": rate(0.1), "dropout": rate(0.1), "smoothing": rate(0.1),
    "eps": positive(1e-5), "std": not_negative(0.02), "learning_rate": positive(0.1),
    "seed": whole(0, least=0), "max_norm": positive(1.0, optional=True), "length": whole(5),
    "width": whole(6), "width_in": whole(6), "width_out": whole(7), "hidden_width": whole(7),
    "vocabulary": whole(9), "layers": whole(1),
    "patience": positive(1.0), "placement": Choice("pre"), "activation": Choice("relu"),
}  # fmt: skip


def kinds_of(kinds):
    """Read the kinds that are text: axes of floating-point numbers, after another kind's name."""
    return {name: read(kind) if isinstance(kind, str) else kind for name, kind in kinds.items()}


def read(text):
    optional, text = text.startswith("optional "), text.removeprefix("optional ")
    word, _, axes = text.partition(" ")
    kind = WORDS[word](axes) if word in WORDS else Floats(text)
    kind.optional |= optional
    return kind


class Call(NamedTuple):
    """A function with the kind of each argument that is spoiled."""

    function: Callable
    kinds: dict
    changes: tuple[str, ...] = ()  # what it may change: parameters
    instead: dict | None = None  # of an argument: what a message names; None: anything

    def arguments(self):
        rng = np.random.default_rng(0)
        return {name: kind.valid(rng) for name, kind in self.kinds.items()}

    def after(self, backward):
        """The call of the backward pass, after this forward pass went well."""
        output, cache = self.function(**self.arguments())
        name = next(iter(inspect.signature(backward).parameters))
        kind = Floats(" ".join(map(str, output.shape))) if np.ndim(output) else Scalar(1.0)
        return Call(lambda **given: backward(given[name], cache), {name: kind})


def call(function, changes=(), **kinds):
    return Call(function, kinds, changes)


def on_two(work):
    """Call ``work(communicator, ...)`` on two ranks, with the same arguments."""
    return lambda **given: on_threads(2, lambda c: work(c, **given))


def array(shape=(3, 6)):
    """What is no array of numbers; its shape and dtype may be any."""
    return Choice(
        np.ones(shape),
        [None, [], [1.0], {}, 3, 0.5, "text", np.array("text"), np.array([1], object)],
    )


class Table:
    """The calls of a room: a line for each public name that the names of arguments do not tell.

    Parameters
    ----------
    file : str
        Where the table stands.
    rooms : list of modules
    lines : dict
        To a call, or to those kinds of its arguments that ``names`` does not have.
    names : dict
        The kinds of arguments by their names.
    objects : dict
        To each class whose methods are called, an object.
    without : set of str
        What has nothing of its own to spoil, or is called by the package alone.
    indirect : dict of str to dict of str, optional
        To a function, by its arguments: the words of which a message begins with one, if not with
        the argument's name; ``"*"`` is anything, such as a file. All others are named themselves,
        or, if shapes disagree, another argument is. Default: a message may name anything.
    """

    def __init__(self, file, rooms, lines, names=(), objects=(), without=(), indirect=None):
        self.file, self.lines, self.without = file, lines, set(without)
        self.names, self.objects = kinds_of(NAMES | dict(names)), dict(objects)
        self.public = {name: value for room in rooms for name, value in public_names(room)}
        self.indirect, self.missing = indirect, []
        self.calls = {}
        for name in (*lines, *(self.public.keys() - lines.keys() - self.without)):
            self.calls[name] = self.line(name)
        self.calls = {
            name: line if indirect is None else line._replace(instead=indirect.get(name, {}))
            for name, line in sorted(self.calls.items())
            if line
        }

    def line(self, name):
        """Return the call of a public name."""
        line = self.lines.get(name, {})
        if isinstance(line, Call):
            return self.filled(line.function, line.kinds, line.changes)
        owner, _, method = name.rpartition(".")
        if owner and owner not in self.objects:
            return self.missing.append(name)
        function = getattr(self.objects[owner], method) if owner else self.public[name]
        if name.endswith("backward") and not line:
            forward = name.replace(".backward", ".forward").removesuffix("_backward")
            if self.has(forward):
                return self.line(forward).after(function)
        return self.filled(function, line) or self.missing.append(name)

    def has(self, name):
        """Tell whether a name is public, or an inherited method of a public class."""
        owner, _, method = name.rpartition(".")
        return name in self.public or owner and hasattr(self.public.get(owner), method)

    def filled(self, function, kinds, changes=()):
        """Return a call with the kinds of the arguments that are known by their names, or None."""
        kinds = kinds_of(kinds)
        for name, parameter in inspect.signature(function).parameters.items():
            if name in self.names:
                kinds.setdefault(name, self.names[name])
            elif name not in kinds and parameter.default is inspect.Parameter.empty:
                if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
                    return None
        spoilt = any(hasattr(kind, "spoils") for kind in kinds.values())
        return Call(function, kinds, changes) if spoilt else None

    def tests(self):
        """Return three tests: of the table, of its valid calls, of what is malformed in them."""
        lines = self.calls

        def test_the_table_is_complete():
            where = f"give its arguments a line in LINES of {self.file} (or in WITHOUT: nothing)"
            assert not self.missing, f"{', '.join(sorted(self.missing))}: {where}"
            gone = [name for name in (*self.lines, *self.without) if not self.has(name)]
            assert not gone, f"{', '.join(sorted(gone))}: not public, take it out of {self.file}"
            for name, arguments in (self.indirect or {}).items():
                assert arguments.keys() <= lines[name].kinds.keys(), name

        @pytest.mark.parametrize("name", lines)
        def test_valid_calls_pass(name):
            lines[name].function(**lines[name].arguments())

        @pytest.mark.parametrize("name", lines)
        def test_what_is_malformed_is_named(name):
            for argument, kind in lines[name].kinds.items():
                if hasattr(kind, "spoils"):
                    valid = kind.valid(np.random.default_rng(0))
                    for spoiled, refused in kind.spoils(valid):
                        spoil_and_call(lines[name], argument, spoiled, refused)

        return test_the_table_is_complete, test_valid_calls_pass, test_what_is_malformed_is_named


def spoil_and_call(call, name, spoiled, refused):
    """Spoil one argument of a call, and hold the function to what it may do with it."""
    values = call.arguments() | {name: spoiled}
    disagree = not refused and not shapes_agree(call.kinds, values)
    before = snapshot(values)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call.function(**values)
        except ValueError as error:
            assert MESSAGE.match(str(error)), f"{name}: {error}"
            if call.instead is not None:
                words = call.instead.get(name, "").split()
                held = values if disagree else {name: spoiled}
                known = {*held, *words}.union(*(v for v in held.values() if isinstance(v, dict)))
                named = re.findall(r"\w+", str(error).partition(":")[0])
                assert "*" in words or known & {*named}, f"{name}: {error}"
            changes = ()
        except Exception as error:
            raise AssertionError(f"{name}={spoiled!r}: expected a ValueError") from error
        else:
            assert not refused and not disagree, f"{name}: taken as {spoiled!r}"
            changes = call.changes
    for argument, value in values.items():
        assert argument in changes or same(before[argument], value), argument


def shapes_agree(kinds, values):
    """Tell whether the shapes of arguments agree with their axes, and with each other."""
    sizes: dict[str, Any] = {}

    def agrees(axis, size):
        return size == (int(axis) if axis.isdigit() else sizes.setdefault(axis, size))

    arrays = [
        (kind, values[name].shape)
        for name, kind in kinds.items()
        if isinstance(kind, Floats) and isinstance(values[name], np.ndarray)
    ]
    for kind, shape in arrays:
        if kind.broadcasts:
            continue
        axes, leading = kind.axes, ()
        if axes[:1] == ["..."]:
            axes = axes[1:]
            cut = len(shape) - len(axes)
            leading, shape = shape[: max(cut, 0)], shape[max(cut, 0) :]
            if not agrees("...", leading):
                return False
        if len(axes) != len(shape) or 0 in (*leading, *shape):
            return False
        if not all(map(agrees, axes, shape)):
            return False
    for kind, shape in arrays:
        if kind.broadcasts:
            whole_shape = ()
            for axis in kind.axes:
                known = int(axis) if axis.isdigit() else sizes[axis]
                whole_shape += known if axis == "..." else (known,)
            try:
                if np.broadcast_shapes(shape, whole_shape) != whole_shape:
                    return False
            except ValueError:
                return False
    return True


def other_shapes(value):
    """Yield the array with an axis more or less, longer, empty, or of length 1."""
    yield value[np.newaxis]
    yield value[..., np.newaxis]
    if value.ndim:
        yield from (value[0, ...], value[..., 0], value.reshape(-1)[0, ...])
    for axis in range(value.ndim):
        yield np.concatenate([value, value.take([0], axis)], axis)
        yield value.take([0], axis)
        yield value.take([], axis)


def snapshot(value):
    """Copy what a function might change."""
    if isinstance(value, dict):
        return {name: snapshot(part) for name, part in value.items()}
    return deepcopy(value) if isinstance(value, (np.ndarray, list)) else value


def same(one, other):
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(
            one, other, equal_nan=one.dtype.kind in "fc"
        )
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[n], other[n]) for n in one)
    return one is other or repr(one) == repr(other)


def is_public(function):
    """Tell a function that says what it returns, and takes anything."""
    if not inspect.isfunction(getattr(function, "__func__", function)):
        return False
    signature = inspect.signature(function)
    return (
        signature.return_annotation is not inspect.Signature.empty
        and signature.parameters.keys() - {"self"} != set()
    )


def public_names(room):
    """Yield the names of ``__all__``, or of what a module defines, and of methods, with values."""
    names = getattr(room, "__all__", None) or [
        name
        for name, value in vars(room).items()
        if getattr(value, "__module__", None) == room.__name__ and not name.startswith("_")
    ]
    for name in names:
        value = getattr(room, name)
        if is_public(value):
            yield name, value
        elif isinstance(value, type) and not issubclass(value, tuple) and value is not Protocol:
            yield name, value
            for method in dir(value):
                function = getattr(value, method)
                if not method.startswith("_") and is_public(function) and is_own(value, method):
                    yield f"{name}.{method}", function


def is_own(kind, method):
    """Tell what a class does not inherit from a public one."""
    owner = next(owner for owner in kind.__mro__ if method in vars(owner))
    room = import_module(owner.__module__.rpartition(".")[0])
    return owner is kind or owner.__name__ not in room.__all__
