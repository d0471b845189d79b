"""The value of an argument, or of an attribute, with which the package gives a wrong output."""

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations, islice
from typing import Any, NamedTuple

import numpy as np

from transformer_practice.engine.exercise import Exercise
from transformer_practice.engine.explain import ratios
from transformer_practice.engine.explain.stage import Stage, numbers
from transformer_practice.engine.mutation import Tracer
from transformer_practice.engine.points import COTANGENT, Point
from transformer_practice.engine.runs import (
    Run,
    briefly,
    called_by,
    close,
    run_backward,
    run_forward,
    run_point,
)

PROBES = 500  # other arguments that are tried at most
USUAL = 1e-5, 1e-6, 1e-7, 1e-8, 1e-9  # what people write for an epsilon
LEAST = 1e-12  # as good as 0
STARTS = 1.1, 0.5, 2.0, 0.1  # from which a factor is looked for
ROUNDS = 12
KEPT = 1000  # other arrays in the cache that are tried, if a pass is one function; or fewer


class Knob(NamedTuple):
    """A number or an array that a pass is given: an argument, or what its layer has."""

    name: str
    value: Any
    put: Callable[[Any], Point]  # the point at which it is another
    default: Any = inspect.Parameter.empty


class Probes:
    """Runs of the package's own pass at points that are changed in one argument."""

    def __init__(self, stage: Stage):
        self.exercise, self.stage = stage.exercise, stage
        self.left = PROBES
        self.known: dict[tuple[str, str], Run] = {}
        self.points: dict[str, dict[str, Point]] = {}

    def right(self, point: Point) -> Run:
        """Run the package's own pass."""
        return run_point(self.exercise, point, self.stage.name)

    def tried(self, point: Point) -> Run:
        """Run the package's own pass, while there are probes left."""
        self.left -= 1
        return self.right(point) if self.left >= 0 else Run({})

    def substitutes(self, point: Point) -> dict[str, Point]:
        """Return, by what is said of it, each point with another value for an argument."""
        if point.name not in self.points:
            self.points[point.name] = dict(substitutes(self.exercise, point, self.stage.name))
        return self.points[point.name]

    def substituted(self, point: Point, said: str) -> Run:
        """Run the package's own pass with one of them, if there is one."""
        if (point.name, said) not in self.known:
            other = self.substitutes(point).get(said)
            self.known[point.name, said] = self.tried(other) if other else Run({})
        return self.known[point.name, said]


def knobs(exercise: Exercise, point: Point) -> Iterator[Knob]:
    """Yield the numbers and arrays of a point that may have another value."""
    signature = inspect.signature(exercise.forward).parameters
    for name, value in point.arguments.items():
        if isinstance(value, np.ndarray | bool | int | float):
            default = signature[name].default if name in signature else inspect.Parameter.empty

            def put(new, name=name):
                return point._replace(arguments=point.arguments | {name: new})

            yield Knob(name, value, put, default)
        elif name in ("self", "build"):
            yield from knobs_of(name, value, point)


def knobs_of(argument, build, point):
    """Yield the numbers and arrays of a layer or an optimiser."""
    sample = build(point.arguments.get("parameters", np.float64))
    defaults = inspect.signature(type(sample).__init__).parameters

    def changed(change):
        def built(given):
            thing = build(given)
            change(thing)
            return thing

        return point._replace(arguments=point.arguments | {argument: built})

    if "parameters" not in point.arguments:
        for name, array in sample.parameters().items():

            def fill(new, name=name):
                return changed(lambda layer: np.copyto(layer.parameters()[name], new))

            yield Knob(name, array, fill)
    for name, value in vars(sample).items():
        if type(value) in (bool, int, float):

            def assign(new, name=name):
                return changed(lambda thing: setattr(thing, name, new))

            yield Knob(
                name,
                value,
                assign,
                defaults[name].default if name in defaults else inspect.Parameter.empty,
            )


def substitutes(exercise, point, stage):
    """Yield points at which one argument is another, and what is said of it."""
    found = list(knobs(exercise, point))
    for knob in found:
        for said, new in others_of(knob.value, knob.default):
            yield f"{knob.name} were {said}", knob.put(new)
    for name, value in point.arguments.items():
        if isinstance(value, dict) and not exercise.in_place:
            yield f"{name} were empty", point._replace(arguments=point.arguments | {name: {}})
        elif isinstance(value, list) and all(isinstance(each, tuple) for each in value):
            for at, number in enumerate(value[0]):
                if isinstance(number, int | float):
                    ones = [(*each[:at], 1, *each[at + 1 :]) for each in value]
                    alike = point._replace(arguments=point.arguments | {name: ones})
                    yield f"[{at}] of each of {name} were 1, so that all counted equally", alike
    for one, other in combinations(found, 2):
        a, b = one.value, other.value
        if isinstance(a, float) and isinstance(b, float) and "build" in point.arguments:
            yield exchanged(one, other)(exercise, point)
    optional = {k.name: k.default for k in found if k.default is not inspect.Parameter.empty}
    given = [name for name in optional if name in point.arguments]
    for names in (*combinations(given, 1), *combinations(given, 2)):
        left = {name: optional[name] for name in names}
        less = point._replace(arguments=point.arguments | left)
        yield f"{' and '.join(names)} were left out", less
        if stage == "backward" and isinstance(point.cotangent, float):
            said = f"{' and '.join(names)} were left out and {cotangent_of(exercise)} were 1"
            yield said, less._replace(cotangent=1.0)
    arrays = [n for n, a in point.arguments.items() if isinstance(a, np.ndarray)]
    for one, other in combinations(arrays, 2):
        a, b = point.arguments[one], point.arguments[other]
        if a.shape == b.shape and b.dtype == bool:
            product = point._replace(arguments=point.arguments | {one: a * b, other: None})
            yield f"{one} were multiplied by {other}", product
        elif a.shape == b.shape:
            both = point._replace(arguments=point.arguments | {one: b, other: a})
            yield f"{one} and {other} were swapped", both
    for name in arrays:
        array = point.arguments[name]
        for axis in range(array.ndim):
            along = f" along axis {axis}" if array.ndim > 1 else ""
            flipped = point._replace(arguments=point.arguments | {name: np.flip(array, axis)})
            yield f"{name} were in reverse order{along}", flipped
    if stage == "backward":
        for said, new in others_of(1.0 * point.cotangent):
            yield f"{cotangent_of(exercise)} were {said}", point._replace(cotangent=new)


def cotangent_of(exercise):
    """Return what the backward pass calls its cotangent."""
    return exercise.functions[1].signature.split(", ")[exercise.of_a_layer]


def exchanged(one, other):
    """Return what gives the point at which two numbers of an optimiser have changed places."""

    def point_of(exercise, point):
        half = one.put(other.value)
        (whole,) = (k for k in knobs(exercise, half) if k.name == other.name)
        return f"{one.name} and {other.name} were swapped", whole.put(one.value)

    return point_of


def others_of(value, default=None):
    """Yield what may stand in the place of a value by mistake."""
    if isinstance(default, int | float) and default is not value:
        yield f"{default}, its default", default
    if isinstance(value, bool):
        yield f"{not value}", not value
    elif isinstance(value, np.ndarray) and value.dtype == bool:
        yield "None", None
        yield "inverted", ~value
    elif isinstance(value, int) or isinstance(value, np.ndarray) and value.dtype.kind == "i":
        yield "larger by 1", value + 1
        yield "smaller by 1", value - 1
        if isinstance(value, np.ndarray):
            yield "0", 0 * value
    else:
        yield "0", 0.0 * value
        yield "1", 1.0 + 0 * value
        yield "replaced by its absolute value", abs(value)
        yield "negated", -value
        yield "replaced by its square", value**2
        if np.ndim(value) and value.any():
            yield "replaced by its sign", np.sign(value)
            yield "divided by its length", value / np.linalg.norm(value)
            yield "centred in each row", value - value.mean(axis=-1, keepdims=True)


def by_substitution(output):
    """Find an argument in whose place another value would make the output right."""
    case, *rest = output.cases
    if not case.own.any():
        return ""
    probes = output.probes
    for said in probes.substitutes(case.point):
        if all(is_output(output, probes.substituted(c.point, said), c) for c in (case, *rest)):
            left_out = said.endswith(
                (" were 0", " were 1", " were None", " were empty", " left out")
            )
            question = ": is it left out?" if left_out and "left out" not in said else "."
            return f"{output.name} is what you would get if {said}{question}"
    return ""


def is_output(output, run, case):
    found = run.outputs.get(output.name)
    return found is not None and close(case.own, numbers(found))


def by_multiple(output):
    """Find a number by which an argument is multiplied where it should not be."""
    if len(output.cases) < 2 and output.cases[0].own.size == 1:  # any number is some multiple
        return ""
    keys = [k.name for k in knobs(output.exercise, output.cases[0].point) if is_scaled(k)]
    if output.stage.name == "backward" and np.ndim(output.cases[0].point.cotangent):
        keys.append(COTANGENT)
    for key in keys:
        factors = []
        for case in output.cases:
            factor = solved(output, case, scaled(output.exercise, case.point, key))
            if factor is None or np.isclose(factor, 1):
                break
            factors.append(factor)
        else:
            names = ratios.names_of(factors, output.sizes)
            plain = np.allclose(factors, factors[0], rtol=ratios.SAME)
            if names or plain:
                times = " or ".join(names) or f"{factors[0]:.6g}"
                shown = cotangent_of(output.exercise) if key == COTANGENT else key
                said = f"{shown} were {times} times as large"
                return f"{output.name} is what you would get if {said}."
    return ""


def is_scaled(knob):
    if isinstance(knob.value, np.ndarray):
        return knob.value.dtype.kind == "f" and knob.value.any()
    return isinstance(knob.value, float) and knob.value != 0


def scaled(exercise, point, key):
    """Return what gives the point at which an array is multiplied."""
    if key == COTANGENT:
        return lambda factor: point._replace(cotangent=factor * point.cotangent)
    found = [knob for knob in knobs(exercise, point) if knob.name == key and is_scaled(knob)]
    if not found:
        return None
    return lambda factor: found[0].put(factor * found[0].value)


def solved(output, case, put):
    """Find the number with which a changed point gives the reader's output, or None."""
    if put is None or not np.isfinite(case.own).all() or not case.own.any():
        return None
    square = float((case.own**2).sum())

    def gap(factor):
        """How far the package's output is from the reader's, along the reader's."""
        found = output.probes.tried(put(factor)).outputs.get(output.name)
        if found is None or found.shape != case.own.shape:
            return None, False
        found = numbers(found)
        return float((found * case.own).sum()) / square - 1, close(found, case.own)

    first, _ = gap(1.0)
    if first is None:
        return None
    for start in STARTS:
        a, fa, b = 1.0, first, start
        for step in range(ROUNDS):
            fb, same = gap(b)
            if same:
                return b
            if step == 0 and fa == fb or step == 1 and is_root(fb):
                return None  # nothing depends on it, or all in one way: no other number would do
            if fb is None or not np.isfinite(fb) or fa == fb or is_root(fb):
                break
            a, fa, b = b, fb, b - fb * (b - a) / (fb - fa)
            if not np.isfinite(b) or abs(b) > 1e9:
                break
    return None


def is_root(gap):
    return gap is not None and abs(gap) < 1e-9


def by_value(output):
    """Find the value of a number with which the package gives this output at all points."""
    case, *rest = output.cases
    if not rest and case.own.size == 1:
        return ""
    for knob in knobs(output.exercise, case.point):
        for said, new in values_of(knob):
            if is_output(output, output.probes.tried(knob.put(new)), case) and all(
                has_value(output, c, knob.name, said) for c in rest
            ):
                return f"{output.name} is what you would get if {knob.name} were {said}."
    return ""


def values_of(knob):
    """Yield values that people write for another, and what is said of them."""
    name, value = knob.name, knob.value
    if type(value) is int:
        yield from {
            "larger by 2": value + 2,
            "twice as large": 2 * value,
            "half as large": value // 2,
        }.items()
    elif type(value) is float:
        yield f"{LEAST:g}, practically 0", LEAST
        yield from ((f"{usual:g} instead of {value:g}", usual) for usual in USUAL)
        yield f"1 - {name}", 1 - value
        yield f"{name}^2", value**2
        yield f"sqrt({name})", abs(value) ** 0.5


def has_value(output, case, name, said):
    return any(
        is_output(output, output.probes.right(knob.put(new)), case)
        for knob in knobs(output.exercise, case.point)
        if knob.name == name
        for each, new in values_of(knob)
        if each == said
    )


def by_cache(output):
    """Find an array of the cache in whose place another would make a gradient right."""
    if output.stage.name == "forward":
        return ""
    first = output.cases[0]
    most = KEPT // len(called_by(output.exercise))
    for said, run in islice(others_kept(output, first), most):
        if is_output(output, run(), first) and all(
            is_output(output, dict(others_kept(output, case)).get(said, no_run)(), case)
            for case in output.all
        ):
            return f"{output.name} is what you would get if {said} in the cache."
    return ""


def no_run():
    return Run({})


def others_kept(output, case):
    """Yield what the cache may hold instead, and the backward pass that is given it."""
    exercise, point = output.exercise, case.point
    tracer = Tracer(exercise.forward.__module__)
    _, cache = run_forward(exercise, exercise.forward, point, tracer)
    named = point.arguments | tracer.functions().get(exercise.forward, {})
    named[cotangent_of(exercise)] = point.cotangent
    named = {name: value for name, value in named.items() if is_floats(value)}
    for others_in in (arrays_instead, values_instead):
        for path, kept in leaves(cache):
            label = next((n for n, value in named.items() if value is kept), ".".join(path))
            for said, new in others_in(kept, label, named):
                other = put_into(cache, path, new)
                yield (
                    said,
                    partial(run_backward, exercise, exercise.backward, point, other, briefly),
                )


def arrays_instead(kept, label, named):
    for name, value in named.items():
        if value.shape != kept.shape or value is kept:
            continue
        if kept.dtype == bool:
            yield f"`{name} > 0` replaced `{label}`", value > 0
        elif kept.dtype.kind == "f":
            yield f"`{name}` replaced `{label}`", value


def values_instead(kept, label, _):
    for said, new in others_of(kept) if kept.dtype.kind == "f" else ():
        yield f"`{label}` were {said}", new


def is_floats(value):
    return isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim > 0


def leaves(cache: Any, path: tuple = ()) -> Iterator[tuple[tuple, np.ndarray]]:
    """Yield the arrays of a cache, each with the fields and places that lead to it."""
    if isinstance(cache, np.ndarray):
        yield path, cache
    elif isinstance(cache, tuple):
        for name, each in zip(fields_of(cache), cache, strict=True):
            yield from leaves(each, (*path, name))


def fields_of(cache):
    return getattr(cache, "_fields", [str(at) for at in range(len(cache))])


def put_into(cache, path, new):
    """Return a cache with another array at the end of a path."""
    if not path:
        return new
    first, *rest = path
    parts = [
        put_into(each, rest, new) if name == first else each
        for name, each in zip(fields_of(cache), cache, strict=True)
    ]
    return type(cache)(*parts) if hasattr(cache, "_fields") else tuple(parts)
