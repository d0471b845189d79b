"""Appendix 910: difference quotients, and the imaginary step."""

from collections.abc import Callable

import numpy as np

from transformer_practice.engine.exercise import Exercise
from transformer_practice.engine.points import Point


def one_sided(f: Callable, x: float, h: float) -> float:
    """Estimate f'(x) from x, x + h and x + 2h, with an error of order h^2."""
    return (-1.5 * f(x) + 2 * f(x + h) - 0.5 * f(x + 2 * h)) / h


def five_point(f: Callable, x: float, h: float) -> float:
    """Estimate f'(x) with an error of order h^4 (eq:taylor-quotients)."""
    inner, outer = f(x + h) - f(x - h), f(x + 2 * h) - f(x - 2 * h)
    return (8 * inner - outer) / (12 * h)


def imaginary_step(f: Callable, x: float, h: float = 1e-20) -> float:
    """Estimate f'(x) of an analytic f (eq:taylor-imaginary)."""
    return f(x + 1j * h).imag / h


def bent(x):
    return np.sin(x) * np.exp(x / 2)


def cubic(x):
    return x**3 - 2 * x + 5


def points():
    generic = Point("generic", {"f": bent, "x": 0.7, "h": 0.1}, sizes={"h": 0.1})
    return [
        generic,
        generic.variant("a polynomial of degree 3", f=cubic),
        generic.variant("at 0", x=0.0),
        generic.variant("a step of 1", h=1.0),
        Point("generic, other sizes", {"f": bent, "x": -1.3, "h": 0.02}, sizes={"h": 0.02}),
    ]


def imaginary_points():
    """The same, with a step below rounding."""
    return [*points(), points()[0].variant("a tiny step", h=1e-20)]


EXERCISES = [
    Exercise(forward=five_point, points=points),
    Exercise(forward=one_sided, points=points),
    Exercise(forward=imaginary_step, points=imaginary_points),
]
