"""What the exercises of several chapters share: points, layers, and how far a theorem is off."""

from collections.abc import Callable

import numpy as np

from transformer_core.gradient_check import gradient_error
from transformer_practice.engine.exercise import Theorem
from transformer_practice.engine.points import Point, randomise


def given(names: str, sizes: Callable[..., dict] = lambda *values: {}) -> Callable[..., Point]:
    """Return a function that makes a point of its name and of the values of some arguments.

    ``sizes`` maps the values to the numbers by which people multiply.
    """
    return lambda name, *values: Point(
        name, dict(zip(names.split(), values, strict=True)), sizes=sizes(*values)
    )


def seeded(make: Callable) -> Callable:
    """Return a builder of a layer in a dtype, for ``self``: all of its parameters normal numbers.

    ``make`` builds the layer of a generator, which also draws the numbers, and of a dtype.
    """

    def build(dtype):
        rng = np.random.default_rng(5)
        return randomise(make(rng, dtype), rng)

    return build


def filled(build: Callable, parameter: str, value: float) -> Callable:
    """Return a builder of the same layer with one number in the place of a parameter's."""

    def changed(dtype):
        layer = build(dtype)
        layer.parameters()[parameter][...] = value
        return layer

    return changed


def zero_sums(sentence: str, output: str, axis: int | tuple[int, ...] = -1) -> Theorem:
    """Return the theorem that an output sums to 0 along an axis, or that its rows do.

    The largest sum is told against the largest entry; where the gradient itself is rounding,
    against the largest entry of the cotangent.
    """

    def deviation(point, outputs):
        array = outputs[output]
        largest = max(np.abs(array).max(), np.abs(point.cotangent).max())
        return np.abs(array.sum(axis=axis)).max() / largest

    return Theorem(sentence, deviation)


def same_products(sentence: str, *groups: str, of: Callable | None = None) -> Theorem:
    """Return the theorem that <da, a> is the same for some groups of arrays.

    Of several arrays in a group, arguments or parameters of the layer, the sum counts. With a
    forward pass ``of``, <dy, y> has to be the same, too.
    """

    def deviation(point, outputs):
        arrays = dict(point.arguments)
        if "self" in arrays:
            arrays |= arrays["self"](np.float64).parameters()
        products = [
            sum((outputs[f"d{name}"] * arrays[name]).sum() for name in group.split())
            for group in groups
        ]
        if of:
            y, _ = of(**point.arguments)
            products.insert(0, (point.cotangent * y).sum())
        first, *others = products
        return max(difference(first, other) for other in others)

    return Theorem(sentence, deviation)


def difference(left: float, right: float) -> float:
    """Return how far two sides of an equation are apart, relative to the larger one."""
    return gradient_error(np.asarray(left), np.asarray(right)).norm
