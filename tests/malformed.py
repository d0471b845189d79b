"""Malformed arguments: what becomes of a valid call of which one argument is spoiled.

A call is a function with the kind of each argument. It may refuse a spoiled argument by a
``ValueError`` that says what it expected, or return what it documents; it has to refuse one whose
shape, dtype or value its kind rules out. It never changes what it is given.
"""

import inspect
import re
import warnings
from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple, Protocol

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

SIZES = {
    "B": 2,
    "B1": 2,
    "T": 3,
    "S": 4,
    "H": 2,
    "K": 3,
    "D": 6,
    "F": 7,
    "I": 5,
    "V": 9,
    "N": 4,
    "M": 500,
}
MESSAGE = re.compile(r".+: expected .+", re.DOTALL)

NOTHING = [None, [], {}, "text", 0.5, float("nan"), object]
DTYPES = (
    "int64 uint8 bool object complex128 float16 longdouble U8 S8 datetime64[s]".split()
)


class Floats:
    """An array of floating-point numbers, with its axes: letters, numbers, a leading ``...``."""

    dtypes = "float16 complex128 longdouble".split()  # that may do
    entries = (
        np.nan,
        np.inf,
        -np.inf,
        1e30,
        -1e300,
        5e-324,
    )  # that may do, all of them
    broadcasts = False

    def __init__(self, axes="", optional=False, listed=False, ok=lambda value: True):
        self.axes = axes.split()
        self.optional, self.listed, self.fine = optional, listed, ok

    def shape(self):
        leading = ["B", "N"] if self.axes[:1] == ["..."] else []
        axes = leading + self.axes[bool(leading) :]
        return tuple(SIZES[a] if a in SIZES else int(a) for a in axes)

    def valid(self, rng):
        return rng.normal(size=self.shape())

    def spoil(self, draw, value):
        """Return a spoiled value, and whether it has to be refused whatever its shape."""
        way = draw(st.sampled_from(["shape", "entry", "dtype", "no array", "list"]))
        if way == "shape":
            return other_shape(draw, value), False
        if way == "list":
            return value.tolist(), not self.listed
        if way == "no array":
            nothing = draw(st.sampled_from(NOTHING))
            return nothing, not (self.optional and nothing is None)
        if way == "dtype":
            dtype = draw(st.sampled_from(DTYPES))
            return value.astype(dtype), dtype not in self.dtypes
        entry = draw(st.sampled_from(self.entries))
        value = np.array(value, np.result_type(value, np.min_scalar_type(entry)))
        value.flat[draw(st.integers(0, value.size - 1))] = entry
        return value, not self.fine(entry)


class Anything(Floats):
    """An array of any dtype."""

    dtypes = DTYPES


class Numbers(Floats):
    """An array of numbers of any kind."""

    dtypes = [dtype for dtype in DTYPES if np.dtype(dtype).kind in "biufc"]


class Ids(Floats):
    """An array of whole numbers below a bound."""

    dtypes = "int64 uint8".split()
    entries = (-1, -(2**40), 2**31, 2**40, 2**62, 0.0, 1.5, np.nan)

    def __init__(self, axes, below, ok=lambda entry: False, **settings):
        super().__init__(axes, ok=ok, **settings)
        self.below = below

    def valid(self, rng):
        return rng.integers(1, self.below, self.shape())


class Reals(Floats):
    """An array of real numbers of any kind."""

    dtypes = [dtype for dtype in DTYPES if np.dtype(dtype).kind in "biuf"]


class Answers(Ids):
    """Whole numbers of which only those of the masked positions are read."""

    def __init__(self, axes, below):
        super().__init__(axes, below, ok=lambda entry: isinstance(entry, int))


class Weights(Reals):
    """An array of real numbers from 0 on."""

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

    def spoil(self, draw, value):
        spoiled = draw(st.sampled_from(self.values))
        if isinstance(spoiled, np.ndarray) and spoiled.ndim == 0:
            return spoiled, False
        single = isinstance(spoiled, (int, float, np.number))
        may = single and np.isrealobj(spoiled) and self.ok(spoiled)
        return spoiled, not (may or self.optional and spoiled is None)


def whole(value, least=1, optional=False):
    """A whole number: a size from 1 on, which has a limit, or a number from 0 on."""
    return Setting(
        value,
        lambda v: (
            isinstance(v, (int, np.integer))
            and v is not True
            and least <= v < (2**31 if least else np.inf)
        ),
        optional,
    )


def rate(value):
    return Setting(value, lambda v: 0 <= v < 1)


def positive(value, optional=False):
    return Setting(value, lambda v: 0 < v < np.inf, optional)


def not_negative(value):
    return Setting(value, lambda v: 0 <= v < np.inf)


class Scalar(Setting):
    """A number of any size, real or complex."""

    def __init__(self, value):
        super().__init__(value, None)

    def spoil(self, draw, value):
        spoiled = draw(st.sampled_from(self.values))
        numbers = int, float, complex, np.number
        return spoiled, not isinstance(spoiled, (*numbers, np.ndarray)) or np.ndim(
            spoiled
        ) > 0


class Choice:
    """One of a few values; all others are refused."""

    def __init__(self, value, others=("", "nonsense", None, 3, [], {}, 0.5, b"pre")):
        self.value, self.others = value, others

    def valid(self, rng):
        return self.value

    def spoil(self, draw, value):
        return draw(st.sampled_from(self.others)), True


DTYPE = Choice(
    "float64", ["int64", int, bool, str, "U3", "nonsense", 3, [], "datetime64[s]"]
)


class Named:
    """A dict of arrays whose names and shapes are given, or those of another dict."""

    def __init__(self, free=False, **kinds):
        self.kinds, self.free = kinds, free

    def valid(self, rng):
        return {name: kind.valid(rng) for name, kind in self.kinds.items()}

    def spoil(self, draw, value):
        way = draw(st.sampled_from(["missing", "unknown", "no dict", "entry"]))
        if way == "no dict":
            others = [None, [], list(value.values()), 3, "text", value["a"]]
            return others[draw(st.integers(0, len(others) - 1))], True
        if way == "missing":
            value = {name: array for name, array in value.items() if name != "a"}
            return value, not self.free
        if way == "unknown":
            return value | {"unknown": value["a"]}, not self.free
        name = draw(st.sampled_from(sorted(self.kinds)))
        entry, refused = self.kinds[name].spoil(draw, value[name])
        other = np.shape(value[name]) != np.shape(entry)
        return value | {name: entry}, refused or other and not self.free


class Whatever:
    """An argument that is not spoiled: a function that makes it of a generator."""

    def __init__(self, make):
        self.valid = make


RNG = Whatever(lambda rng: np.random.default_rng(3))


class Call(NamedTuple):
    """A function with the kind of each argument that is spoiled."""

    function: Callable
    kinds: dict
    changes: tuple[str, ...] = ()  # what it may change: parameters

    def arguments(self):
        rng = np.random.default_rng(0)
        return {name: kind.valid(rng) for name, kind in self.kinds.items()}


def call(function, changes=(), **kinds):
    return Call(function, kinds, changes)


def forward(layer, **kinds):
    return call(lambda **given: layer.forward(**given), **kinds)


def backward(layer, *inputs, **kinds):
    """The backward pass, after a forward pass that went well."""
    _, cache = layer.forward(*inputs)
    return call(lambda **given: layer.backward(**given, cache=cache), **kinds)


def fit(kinds, values):
    """Tell whether the shapes of arguments fit their axes, and each other."""
    sizes: dict[str, Any] = {}

    def same(axis, size):
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
            if not same("...", leading):
                return False
        if len(axes) != len(shape) or 0 in (*leading, *shape):
            return False
        if not all(map(same, axes, shape)):
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


def other_shape(draw, value):
    """Return an array with an axis more or less, longer, empty, or of length 1."""
    ways = ["first", "last"]
    if value.ndim:
        ways += ["without first", "without last", "longer", "empty", "one", "scalar"]
    way = draw(st.sampled_from(ways))
    if way == "first":
        return value[np.newaxis]
    if way == "last":
        return value[..., np.newaxis]
    if way == "without first":
        return value[0, ...]
    if way == "without last":
        return value[..., 0]
    if way == "scalar":
        return value.reshape(-1)[0, ...]
    axis = draw(st.integers(0, value.ndim - 1))
    if way == "longer":
        return np.concatenate([value, value.take([0], axis)], axis)
    return value.take([0] if way == "one" else [], axis)


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


def spoil_and_call(call, draw):
    """Spoil one argument of a call, and hold the function to what it may do with it."""
    values = call.arguments()
    names = [name for name, kind in call.kinds.items() if hasattr(kind, "spoil")]
    name = draw(st.sampled_from(names))
    values[name], refused = call.kinds[name].spoil(draw, values[name])
    refused = refused or not fit(call.kinds, values)
    before = snapshot(values)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call.function(**values)
        except ValueError as error:
            assert MESSAGE.match(str(error)), f"{name}: {error}"
            changes = ()
        else:
            assert not refused, f"{name}: taken as {values[name]!r}"
            changes = call.changes
    for argument, value in values.items():
        assert argument in changes or same(before[argument], value), argument


def both_tests(calls):
    """Return the two tests of a table: of its valid calls, and of what is malformed in them."""

    @pytest.mark.parametrize("name", calls)
    def test_valid_calls_pass(name):
        calls[name].function(**calls[name].arguments())

    @pytest.mark.parametrize("name", calls)
    @given(data=st.data())
    def test_what_is_malformed_is_named(name, data):
        spoil_and_call(calls[name], data.draw)

    return test_valid_calls_pass, test_what_is_malformed_is_named


def is_public(function):
    """Tell a function that says what it returns, and takes anything."""
    if not inspect.isfunction(getattr(function, "__func__", function)):
        return False
    signature = inspect.signature(function)
    return (
        signature.return_annotation is not inspect.Signature.empty
        and signature.parameters.keys() - {"self"} != set()
    )


def names_of(module, name):
    """Yield the names under which a table has a public function, or a class and its methods."""
    value = getattr(module, name)
    if is_public(value):
        yield name
    elif (
        isinstance(value, type)
        and not issubclass(value, tuple)
        and value is not Protocol
    ):
        yield name
        for method in dir(value):
            if not method.startswith("_") and is_public(getattr(value, method)):
                yield f"{name}.{method}"


def public_names(*modules):
    """List what of modules has to be in a table: of ``__all__``, or of what they define."""
    names = set()
    for module in modules:
        here = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if getattr(value, "__module__", None) == module.__name__
            and not name.startswith("_")
        ]
        for name in here:
            names.update(names_of(module, name))
    return sorted(names)
