"""Chapter 260: steepest descent in other norms, and Muon."""

import numpy as np

from transformer_core.optim import Muon, orthogonalize
from transformer_core.optim.muon import CUBIC, QUINTIC
from transformer_practice.engine.exercise import Exercise, Theorem, UpdateExercise
from transformer_practice.engine.points import Point, normal
from transformer_practice.exercises.attention import relative
from transformer_practice.exercises.optimizers import points


def matrix_points():
    def draw(name, rows, columns, iterations):
        return Point(
            name,
            {"matrix": 3 * normal(1, rows, columns), "iterations": iterations},
            sizes={"D_in": rows, "D_out": columns},
        )

    generic = draw("generic", 4, 7, 3)
    matrix = generic.arguments["matrix"]
    return [
        generic,
        generic.variant("more rows than columns", matrix=matrix.T),
        generic.variant("a square matrix", matrix=matrix[:, :4]),
        generic.variant("one step", iterations=1),
        generic.variant("five steps", iterations=5),
        generic.variant("one row", matrix=matrix[:1]),
        generic.variant("zeros", matrix=np.zeros((4, 7))),
        generic.variant("large numbers", matrix=1e30 * matrix),
        generic.variant("the cubic", coefficients=CUBIC),
        draw("generic, other sizes", 5, 3, 4),
    ]


def same_vectors(point, outputs):
    """X M^T is symmetric if X has the singular vectors of M."""
    matrix = point.arguments["matrix"]
    product = outputs["output"] @ matrix.T
    return relative(product - product.T, product)


def muon_points():
    def build(**settings):
        return lambda parameters: Muon(parameters, 0.1, **settings)

    return points(
        build(momentum=0.7, weight_decay=0.4, iterations=3),
        {
            "no momentum": {"build": build(momentum=0.0, weight_decay=0.4)},
            "without looking ahead": {
                "build": build(momentum=0.7, weight_decay=0.4, nesterov=False)
            },
            "no weight decay": {"build": build(momentum=0.7)},
        },
        {"wide": (3, 5), "tall": (7, 4), "square": (4, 4)},
    )


def steps_to_half(x, coefficients):
    """Count the steps of the iteration that bring a singular value to 1/2."""
    a, b, c = coefficients
    steps = 0
    while x < 0.5:
        x = a * x + b * x**3 + c * x**5
        steps += 1
    return steps


def step_points():
    return [
        Point("generic", {"x": 0.01, "coefficients": QUINTIC}),
        Point("the cubic", {"x": 0.01, "coefficients": CUBIC}),
        Point("very small", {"x": 1e-6, "coefficients": QUINTIC}),
        Point("very small, the cubic", {"x": 1e-6, "coefficients": CUBIC}),
        Point("large enough", {"x": 0.7, "coefficients": CUBIC}),
        Point("c decides", {"x": 0.37, "coefficients": (1.4, -0.5, 2.0)}),
        Point("c decides late", {"x": 0.1, "coefficients": (1.2, -0.5, 8.0)}),
        Point("c decides soon", {"x": 0.2, "coefficients": (1.1, -0.3, 6.0)}),
        Point("exactly 1/2", {"x": 0.5, "coefficients": CUBIC}),
        Point("generic, other sizes", {"x": 0.03, "coefficients": (2.0, -1.5, 0.5)}),
    ]


EXERCISES = [
    Exercise(
        forward=orthogonalize,
        points=matrix_points,
        theorems=(Theorem("the singular vectors stay", same_vectors),),
    ),
    UpdateExercise(forward=Muon.turn, points=muon_points, method="turn"),
    Exercise(forward=steps_to_half, points=step_points),
]
