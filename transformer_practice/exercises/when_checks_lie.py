"""Chapter 170: when checks lie."""

import numpy as np

from transformer_practice.engine.exercise import Exercise
from transformer_practice.engine.points import Point, normal
from transformer_practice.exercises.gradient_check import coupled, straight


def directional_derivative(f, x, direction, h=1e-20):
    return np.imag(f(x + complex(0, h) * direction)) / h


def direction_points():
    x, direction = normal(1, 2, 3), normal(2, 2, 3)
    generic = Point("generic", {"f": coupled, "x": x, "direction": direction})
    one = np.zeros((2, 3))
    one[1, 2] = 1.0
    return [
        generic,
        generic.variant("along one entry", direction=one),
        generic.variant("along x", direction=x),
        generic.variant("a direction of ones", direction=np.ones((2, 3))),
        generic.variant("a long direction", direction=1e6 * direction),
        generic.variant("a linear function", f=straight),
        generic._replace(
            name="a larger step", arguments=generic.arguments | {"h": 1e-9}, sizes={"h": 1e-9}
        ),
        Point("generic, other sizes", {"f": coupled, "x": normal(3, 5), "direction": normal(4, 5)}),
    ]


EXERCISES = [Exercise(forward=directional_derivative, points=direction_points)]
