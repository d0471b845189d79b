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
    Exercise(
        forward=five_point,
        shapes=("a function and two numbers -> f'(x)",),
        points=points,
        hints=(
            "How many values of f does the third quotient need?",
            "Two differences, each symmetric about x: one with h, one with 2h.",
            "Only one of the two differences is multiplied by 8; the whole is divided by 12 h.",
        ),
    ),
    Exercise(
        forward=one_sided,
        shapes=("a function and two numbers -> f'(x), from f at x, x + h and x + 2h",),
        equations=("eq:taylor-remainder",),
        points=points,
        hints=(
            "You have three numbers. Which three terms of the Taylor series do you want to "
            "prescribe?",
            "f itself has to vanish, f' has to come out once, and f'' has to vanish.",
            "These are three linear equations: a + b + c = 0, b + 2c = 1, b/2 + 2c = 0.",
        ),
    ),
    Exercise(
        forward=imaginary_step,
        shapes=("an analytic function and two numbers -> f'(x), a real number",),
        points=imaginary_points,
        hints=(
            "Python writes the imaginary unit as 1j.",
            "Which part of the value holds the slope, the real one or the imaginary one?",
            "Nothing is subtracted: one value of f, one part of it, and a division by h.",
        ),
    ),
]
