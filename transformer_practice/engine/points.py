"""Where functions are run: the points of an exercise, and how they are drawn."""

import inspect
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import numpy as np

COTANGENT = "the cotangent"  # in the place of an argument's name


class Draws(NamedTuple):
    """Stands for a generator among the arguments: every call gets a new one of this seed."""

    seed: int


class Point(NamedTuple):
    """Where functions are run.

    ``arguments`` are those of the forward pass in their order, ``cotangent`` that of its output;
    None where there is no backward pass. The first points of an exercise are called "generic" and
    "generic, other sizes"; the name of every other one says what is special there. ``sizes`` are
    the numbers by which people multiply by mistake: ``{"B": 2, "K": 5, "1 - p": 0.7}``.
    """

    name: str
    arguments: dict[str, Any]
    cotangent: Any = None
    sizes: dict[str, float] = {}

    def variant(self, name: str, /, **changes: Any) -> "Point":
        """Return this point with other arguments, or another ``cotangent``."""
        cotangent = changes.pop("cotangent", self.cotangent)
        return self._replace(name=name, arguments=self.arguments | changes, cotangent=cotangent)

    def with_array(self, name: str, array: np.ndarray) -> "Point":
        """Return this point with another array for an argument, or for the cotangent."""
        if name == COTANGENT:
            return self._replace(cotangent=array)
        return self._replace(arguments=self.arguments | {name: array})

    def without(self, name: str, argument: str) -> "Point":
        """Return this point without an argument, which has a default."""
        arguments = {n: value for n, value in self.arguments.items() if n != argument}
        return self._replace(name=name, arguments=arguments)

    def sliced(self, name: str, index: Any, *arguments: str) -> "Point":
        """Return the point at the same part of some arguments and of the cotangent."""
        parts = {argument: self.arguments[argument][index] for argument in arguments}
        return self.variant(name, cotangent=self.cotangent[index], **parts)


def sampler(
    letters: str,
    /,
    *,
    cotangent: Any = None,
    sizes: dict[str, Callable] | None = None,
    **arguments: Any,
) -> Callable[..., Point]:
    """Return a function that draws a point, given its name and a number for each letter.

    Parameters
    ----------
    letters : str
        Names of sizes: "B T D".
    cotangent, **arguments
        A str is the shape of an array of normal numbers, such as "B T D"; arrays have the seeds
        1, 2, ... in their order, or one that is given: ("B T D", 4). A function is called with
        the sizes that its parameters name. Anything else is a value.
    sizes : dict of str to callable
        What else people multiply by, as functions of the sizes.
    """

    def draw(name: str, *numbers: float) -> Point:
        size = dict(zip(letters.split(), numbers, strict=True))
        seeds = count(1)

        def of_sizes(function):
            names = inspect.signature(function).parameters.keys() & size.keys()
            return function(**{name: size[name] for name in names})

        def value(about):
            if isinstance(about, str):
                about = about, next(seeds)
            if isinstance(about, tuple):
                shape, seed = about
                return normal(seed, *(int(size.get(each, each)) for each in shape.split()))
            return of_sizes(about) if callable(about) else about

        return Point(
            name,
            {argument: value(about) for argument, about in arguments.items()},
            value(cotangent),
            size | {name: of_sizes(function) for name, function in (sizes or {}).items()},
        )

    return draw


def normal(seed: int, *shape: int) -> np.ndarray:
    """Draw normal numbers of a shape."""
    return np.random.default_rng(seed).normal(size=shape)


def randomise(layer: Any, rng: np.random.Generator) -> Any:
    """Draw all parameters of a layer or a model, which starts with gamma 1 and biases 0."""
    for array in layer.parameters().values():
        array[...] = rng.normal(size=array.shape)
    return layer


def drawn(make: Callable, seed: int) -> Callable:
    """Return a builder of a layer, for ``self``: in a dtype, all of its parameters normal numbers.

    ``make`` builds the layer in a dtype.
    """
    return lambda dtype: randomise(make(dtype), np.random.default_rng(seed))
