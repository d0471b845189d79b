"""What can be examined: an exercise, and how its functions are run at a point."""

import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, wraps
from itertools import zip_longest
from textwrap import indent
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from transformer_practice.engine.points import Draws, Point
from transformer_practice.engine.running import returns_nothing

Arrays = dict[str, np.ndarray]


class Function(NamedTuple):
    """What the reader is told of a function that they are to write."""

    shapes: str  # "x (..., D), gamma and beta (D,) -> y (..., D), cache"
    equation: str  # "eq:layer-norm"
    signature: str  # "x, gamma, beta, eps=1e-5"


class Theorem(NamedTuple):
    """What holds for every right answer: a sentence, and how far it is from holding.

    ``deviation`` maps a point and the outputs there to a number, 0 but for rounding.
    """

    sentence: str
    deviation: Callable[[Point, Arrays], float]


def signature_of(function: Callable) -> str:
    """Return the parameters of a function with their defaults, without annotations."""
    parameters = inspect.signature(function).parameters.values()
    plain = [str(each.replace(annotation=each.empty)) for each in parameters]
    return re.sub(r"e-0(?=\d)", "e-", ", ".join(plain))


def equations_of(function: Callable) -> str:
    """Return the labels of the equations in the first paragraph of a function's docstring."""
    summary = (function.__doc__ or "").partition("\n\n")[0]
    return ", ".join(re.findall(r"eq:[\w-]+", summary))


@dataclass(frozen=True, kw_only=True, eq=False)
class Exercise:
    """One or two functions that a reader writes, and all that is needed to judge them.

    Parameters
    ----------
    forward, backward : callable
        The package's own; ``backward`` is None where one function is all, and need not be given
        where it stands beside ``forward``.
    plain : tuple of callable
        The same, line by line as the page has it, where the package is quicker than that: small
        changes of it explain what readers write.
    name : str
        Default: that of ``forward``, or of its class.
    chapter : str
        Page and notebook: "150_layer_norm". It is that of the exercise's file.
    shapes : tuple of str
        What each function takes and returns, as in the reader's file.
    equations, signatures : tuple of str
        Where they are not those of ``forward`` and ``backward``: of their docstrings, and as
        Python knows them. These, the shapes and the hints of the book's exercises stand in a file
        of TOML beside them.
    points : callable
        Returns the points, the generic ones first.
    hints : tuple of str
        Three, each saying more than the one before, none the solution.
    theorems : tuple of Theorem
    terms : dict of str to callable
        For an output: maps a point to the terms of its derivation, by name, whose sum it is.
    returns : tuple of str
        What a function without a backward pass returns.
    restores : bool
        True: it may change its arguments meanwhile, and leaves them as they were.
    """

    forward: Callable
    backward: Callable | None = None
    plain: tuple[Callable, ...] = ()
    name: str = ""
    chapter: str = ""
    shapes: tuple[str, ...] = ()
    equations: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    points: Callable[[], list[Point]]
    hints: tuple[str, ...] = ()
    theorems: tuple[Theorem, ...] = ()
    terms: dict[str, Callable] = field(default_factory=dict)
    returns: tuple[str, ...] = ("output",)
    restores: bool = False

    in_place = False  # whether the function is to change its arguments
    of_a_layer = False  # whether the first argument is the layer

    def __post_init__(self):
        if not self.name:
            object.__setattr__(self, "name", self.forward.__qualname__.partition(".")[0])
        if self.backward is None:
            object.__setattr__(self, "backward", self.backward_beside())

    def backward_beside(self) -> Callable | None:
        """Return the backward pass that stands where the forward pass does."""
        return None

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """What is said of each function in the reader's file."""
        own = [function for function in (self.forward, self.backward) if function]
        said = zip_longest(own, self.shapes, self.equations, self.signatures)
        return tuple(
            Function(shapes or "", equation or equations_of(each), signature or signature_of(each))
            for each, shapes, equation, signature in said
        )

    def arguments(self, point: Point, dtype: DTypeLike = np.float64) -> list:
        """Return new arguments for one call of the forward pass."""
        return [fresh(value, dtype) for value in point.arguments.values()]

    def outputs(self, value: Any) -> Arrays:
        """Name what the forward pass has computed."""
        values = (value,)
        if len(self.returns) > 1:
            if not isinstance(value, tuple) or len(value) != len(self.returns):
                raise Misfit(f"returns {kind(value)}, expected {', '.join(self.returns)}")
            values = value
        found: Arrays = {}
        for name, part in zip(self.returns, values, strict=True):
            if isinstance(part, dict):
                found |= {f"{name}, {key}": number_or_array(key, v) for key, v in part.items()}
            else:
                found[name] = number_or_array(name, part)
        return found

    def run_forward(
        self, function: Callable, point: Point, call: Callable, dtype: DTypeLike = np.float64
    ) -> tuple[Arrays, Any]:
        """Return the outputs of a forward pass, and its cache: None where there is none."""
        return self.outputs(call(function, *self.arguments(point, dtype))), None

    def run_backward(
        self,
        function: Callable,
        point: Point,
        cache: Any,
        call: Callable,
        dtype: DTypeLike = np.float64,
    ) -> Arrays:
        """Return the gradients under their names."""
        raise TypeError(f"{self.name} has no backward pass")

    def by_position(self, function: Callable) -> Callable:
        """Return a forward pass that takes all arguments of a point in their order."""
        return function

    def again(self, point: Point, arguments: list) -> list:
        """Return the arguments of one more call: the same arrays, and generators from the start."""
        return [
            fresh(value) if isinstance(value, Draws) else argument
            for value, argument in zip(point.arguments.values(), arguments, strict=True)
        ]

    def live(self, point: Point, arguments: list) -> Arrays:
        """Return those of a call's arrays that have a gradient, by the gradient's name."""
        return {}


@dataclass(frozen=True, kw_only=True, eq=False)
class OpExercise(Exercise):
    """``y, cache = forward(...)`` and ``gradients = backward(dy, cache)``.

    Parameters
    ----------
    inputs : tuple of str
        The arguments that have a gradient, in the order in which ``backward`` returns them.
    """

    inputs: tuple[str, ...]

    def backward_beside(self):
        return getattr(sys.modules[self.forward.__module__], f"{self.forward.__name__}_backward")

    def run_forward(self, function, point, call, dtype=np.float64):
        value = call(function, *self.arguments(point, dtype))
        y, cache = pair(value, "y, cache")
        return {"y": number_or_array("y", y)}, cache

    def run_backward(self, function, point, cache, call, dtype=np.float64):
        value = call(function, fresh(point.cotangent, dtype), cache)
        gradients = value if isinstance(value, tuple) else (value,)
        names = [f"d{name}" for name in self.inputs]
        if len(gradients) != len(names):
            raise Misfit(f"returns {count(len(gradients), 'value')}, expected {', '.join(names)}")
        return {
            name: number_or_array(name, gradient)
            for name, gradient in zip(names, gradients, strict=True)
        }

    def live(self, point, arguments):
        given = dict(zip(point.arguments, arguments, strict=True))
        return {f"d{name}": given[name] for name in self.inputs}


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerExercise(Exercise):
    """``forward(self, *inputs)`` and ``backward(self, dy, cache)``, as methods of a layer.

    The first argument of a point is ``self``: a callable that builds the layer in a dtype, at the
    same parameters each time.

    Parameters
    ----------
    inputs : tuple of str
        The inputs that have a gradient, in the order in which ``backward`` returns them. A point
        need not have all of them.
    """

    inputs: tuple[str, ...]

    of_a_layer = True

    def backward_beside(self):
        layer, _, _ = self.forward.__qualname__.partition(".")
        return getattr(sys.modules[self.forward.__module__], layer).backward

    def arguments(self, point, dtype=np.float64):
        build, *inputs = point.arguments.values()
        return [build(dtype), *(fresh(value, dtype) for value in inputs)]

    def run_forward(self, function, point, call, dtype=np.float64):
        arguments = self.arguments(point, dtype)
        y, cache = pair(call(self.by_position(function), *arguments), "y, cache")
        return {"y": number_or_array("y", y)}, cache

    def run_backward(self, function, point, cache, call, dtype=np.float64):
        arguments = self.arguments(point, dtype)
        layer, floats = arguments[0], self.live(point, arguments)
        parameters = layer.parameters()
        value = call(function, layer, fresh(point.cotangent, dtype), cache)
        names = [f"d{name}" for name in self.inputs if name in point.arguments]
        shown = [name if name in floats else "None" for name in names]
        expected = ", ".join([*shown, "grads"])
        if not isinstance(value, tuple) or len(value) != len(names) + 1:
            raise Misfit(f"returns {kind(value)}, expected {expected}")
        *dinputs, grads = value
        if not isinstance(grads, dict):
            raise Misfit(f"grads: expected a dict of arrays, got {kind(grads)}")
        missing, unknown = (parameters.keys() - grads.keys(), grads.keys() - parameters.keys())
        if missing or unknown:
            wrong = [f"lacks {name!r}" for name in sorted(missing)]
            wrong += [f"must have no {name!r} here" for name in sorted(map(str, unknown))]
            raise Misfit(f"grads {' and '.join(wrong)}")
        found = {
            name: number_or_array(name, gradient)
            for name, gradient in zip(names, dinputs, strict=True)
            if gradient is not None or name in floats
        }
        return found | {f"d{n}": number_or_array(f"d{n}", grads[n]) for n in parameters}

    def live(self, point, arguments):
        given = dict(zip(point.arguments, arguments, strict=True))
        layer, *_ = arguments
        inputs = {
            f"d{name}": given[name]
            for name in self.inputs
            if name in given and given[name].dtype.kind == "f"
        }
        return inputs | {f"d{n}": array for n, array in layer.parameters().items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class UpdateExercise(Exercise):
    """``update(self, name, parameter, grad, *averages)``, the step of an optimiser, in place.

    The arguments of a point are ``build``, which makes the package's optimiser of parameters, and
    ``steps``, the gradients of each step. The outputs are each parameter after every step, on a
    first axis, and what the optimiser remembers in the end.

    Parameters
    ----------
    method : str
        What the optimiser calls it.
    """

    method: str = "update"

    in_place = True

    def run_forward(self, function, point, call, dtype=np.float64):
        build, parameters, steps = point.arguments.values()
        parameters = {name: array.copy() for name, array in parameters.items()}
        optimizer = build(parameters)

        of_grad = list(inspect.signature(self.forward).parameters).index("grad") - 1

        def own(*arguments):
            steps, before = optimizer.steps, arguments[of_grad].copy()
            if not call(returns_nothing, function, optimizer, *arguments):
                raise Misfit(f"{self.method} must return nothing: it changes its arrays in place")
            if not np.array_equal(arguments[of_grad], before, equal_nan=True):
                raise Misfit(f"{self.method} must not change grad: its caller may still need it")
            if optimizer.steps != steps:
                raise Misfit(
                    f"{self.method} must not change self.steps: the step is already counted"
                )

        setattr(optimizer, self.method, own)
        history = {name: [] for name in parameters}
        for grads in steps:
            optimizer.step({name: grad.copy() for name, grad in grads.items()})
            for name, array in parameters.items():
                history[name].append(array.copy())
        outputs = {name: np.stack(arrays) for name, arrays in history.items()}
        for average, arrays in optimizer.averages.items():
            outputs[average] = np.concatenate([a.ravel() for a in arrays.values()])
        return outputs, None


class Misfit(Exception):
    """What a function returns is not of the form that is asked for; the message says how."""


def fresh(value: Any, dtype: Any = np.float64) -> Any:
    """Return a copy of an argument, arrays of floats in a dtype; a new generator for ``Draws``."""
    if isinstance(value, Draws):
        return np.random.default_rng(value.seed)
    if isinstance(value, np.ndarray):
        return value.astype(dtype if value.dtype.kind == "f" else value.dtype)
    if isinstance(value, dict):
        return {name: fresh(each, dtype) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(fresh(each, dtype) for each in value)
    return value


def pair(value: Any, names: str) -> tuple:
    """Return what a forward pass has returned, or raise ``Misfit``."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise Misfit(f"returns {kind(value)}, expected {names}")
    return value


def number_or_array(name, value):
    if isinstance(value, (int, float, complex, np.generic, np.ndarray)):
        array = np.asarray(value)
        if array.dtype.kind in "fiub":
            return array
        if array.dtype.kind == "c":
            raise Misfit(f"{name}: expected real numbers, got complex ones: .real or .imag?")
    raise Misfit(f"{name}: expected an array of numbers, got {kind(value)}")


def kind(value: Any) -> str:
    """Say what a value is, for a message."""
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    if isinstance(value, np.ndarray):
        return f"one array of shape {value.shape}"
    return f"a value of type {type(value).__name__}"


def count(number, noun):
    return f"{number} {noun}{'s' * (number != 1)}"


def stub(exercise: Exercise) -> str:
    """Return the text from which a reader starts: signatures, shapes, equations, no code."""
    functions = [
        f"def {name}({about.signature}):\n"
        f'    """{about.equation}\n\n    {about.shapes}\n    """\n'
        "    raise NotImplementedError"
        for name, about in zip(names_of(exercise), exercise.functions, strict=True)
    ]
    if not isinstance(exercise, LayerExercise | UpdateExercise):
        return "\n\n\n".join(functions)
    methods = "\n\n".join(indent(function, "    ") for function in functions)
    return f"class {exercise.name}:\n{methods}"


def names_of(exercise: Exercise) -> list[str]:
    """Return the names of an exercise's functions, or of its methods."""
    if isinstance(exercise, LayerExercise):
        return ["forward", "backward"]
    if isinstance(exercise, UpdateExercise):
        return [exercise.method]
    return [exercise.name, f"{exercise.name}_backward"][: len(exercise.functions)]


def titles_of(exercise: Exercise) -> list[str]:
    """Return what reports call the functions: ``linear_backward``, ``Residual.backward``."""
    names = names_of(exercise)
    return names if names[0] == exercise.name else [f"{exercise.name}.{n}" for n in names]


def written_in(exercise: Exercise, namespace: dict) -> list[Callable | None]:
    """Find an exercise's functions among the names of a reader's module; None where one is not."""
    names = names_of(exercise)
    if not isinstance(exercise, LayerExercise | UpdateExercise):
        return [namespace.get(name) for name in names]
    own = vars(namespace[exercise.name]) if exercise.name in namespace else {}
    others = {name: value for name, value in own.items() if name not in names}
    return [with_others(own[name], others) if name in own else None for name in names]


def with_others(method, others):
    """Give a method of the reader's what else their class has, and the package's object lacks."""
    if not callable(method) or all(name.startswith("__") for name in others):
        return method

    @wraps(method)
    def run(self, *arguments, **options):
        lacking = {name: value for name, value in others.items() if not hasattr(self, name)}
        if lacking:
            lent = type(type(self).__name__, (type(self),), lacking)
            object.__setattr__(self, "__class__", lent)
        return method(self, *arguments, **options)

    return run
