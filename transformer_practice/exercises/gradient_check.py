"""Chapter 110: how to trust a gradient."""

import numpy as np

from transformer_core import gradient_check
from transformer_practice.engine.exercise import (
    Exercise,
    Function,
    OpExercise,
    Point,
    Theorem,
    normal,
    variants,
)
from transformer_practice.exercises.structure import difference, row_sums


def cubes(x):
    return (np.arange(1, x.size + 1).reshape(x.shape) * x * x * x).sum()


def coupled(x):
    return np.exp(x).sum() * (x * x).sum()


def straight(x):
    return (np.arange(3, x.size + 3).reshape(x.shape) * x).sum()


def fast(x):
    return np.sin(1e4 * x).sum()


def difference_points():
    x = normal(1, 2, 3)
    generic = Point("generic", {"f": coupled, "x": x, "h": 0.1}, sizes={"2 h": 0.2})
    return [
        *variants(
            generic,
            {
                "one entry": {"x": x[:1, 1]},
                "three axes": {"x": normal(2, 2, 3, 4)},
                "entries of 0": {"x": np.zeros((2, 3))},
                "a linear function": {"f": straight},
                "entries that act alone": {"f": cubes},
                "a smaller step": {"h": 0.01},
            },
        ),
        Point("the step of the signature", {"f": fast, "x": 1e-4 * x}),
        Point(
            "generic, other sizes", {"f": coupled, "x": normal(3, 4), "h": 0.05}, sizes={"2 h": 0.1}
        ),
    ]


def complex_points():
    x = normal(1, 2, 3)
    generic = Point("generic", {"f": coupled, "x": x})
    return [
        *variants(
            generic,
            {
                "one entry": {"x": x[:1, 1]},
                "three axes": {"x": normal(2, 2, 3, 4)},
                "entries of 0": {"x": np.zeros((2, 3))},
                "a linear function": {"f": straight},
                "entries that act alone": {"f": cubes},
            },
        ),
        Point("a large step", {"f": coupled, "x": x, "h": 0.1}, sizes={"h": 0.1}),
        Point("generic, other sizes", {"f": coupled, "x": normal(3, 4)}),
    ]


def error_points():
    a = normal(1, 2, 3)
    generic = Point(
        "generic", {"gradient": a, "reference": a + 0.1 * normal(2, 2, 3), "scale": 0.4}
    )
    zeros = np.zeros((2, 3))
    return [
        *variants(
            generic,
            {
                "no scale": {"scale": 0.0},
                "a scale above both": {"scale": 10.0},
                "equal gradients": {"reference": a},
                "a gradient of zeros": {"gradient": zeros},
                "two gradients of zeros": {"gradient": zeros, "reference": zeros, "scale": 0.0},
                "an entry that is 0 in both": {
                    "gradient": a * (np.abs(a) > 0.5),
                    "reference": 1.1 * a * (np.abs(a) > 0.5),
                    "scale": 0.0,
                },
                "the opposite direction": {"reference": -a},
                "gradients in small units": {
                    "gradient": 1e-9 * a,
                    "reference": 1.1e-9 * a,
                    "scale": 0.0,
                },
            },
        ),
        Point(
            "generic, other sizes",
            {"gradient": normal(3, 5), "reference": normal(4, 5), "scale": 0.7},
        ),
    ]


def spread(x, gamma):
    centred = x - x.mean(axis=-1, keepdims=True)
    return gamma * centred**2, (centred, gamma)


def spread_backward(dy, cache):
    centred, gamma = cache
    dcentred = 2 * gamma * dy * centred
    dx = dcentred - dcentred.mean(axis=-1, keepdims=True)
    return dx, (dy * centred**2).sum(axis=tuple(range(dy.ndim - 1)))


def spread_points():
    def draw(name, batch, length, width):
        return Point(
            name,
            {"x": normal(1, batch, length, width), "gamma": normal(2, width)},
            normal(3, batch, length, width),
            {"B": batch, "T": length, "D": width},
        )

    generic = draw("generic", 3, 4, 7)
    x, cotangent = generic.arguments["x"], generic.cotangent
    return [
        *variants(
            generic,
            {
                "gamma = 1": {"gamma": np.ones(7)},
                "one row": {"x": x[:1, :1], "cotangent": cotangent[:1, :1]},
                "no batch axis": {"x": x[0], "cotangent": cotangent[0]},
                "cotangent of ones": {"cotangent": np.ones(x.shape)},
                "gamma = 1, cotangent of ones": {
                    "gamma": np.ones(7),
                    "cotangent": np.ones(x.shape),
                },
            },
        ),
        draw("generic, other sizes", 2, 3, 5),
    ]


def linear_in_gamma(point, outputs):
    return difference(
        (outputs["dgamma"] * point.arguments["gamma"]).sum(),
        (point.cotangent * spread(**point.arguments)[0]).sum(),
    )


def spread_terms(point):
    _, (centred, gamma) = spread(**point.arguments)
    g = 2 * point.cotangent * gamma * centred
    return {
        "the term of its own place": g,
        "the mean term": -g.mean(axis=-1, keepdims=True) * np.ones_like(g),
    }


EXERCISES = [
    Exercise(
        name="central_difference",
        chapter="110_gradient_check",
        forward=gradient_check.central_difference,
        functions=(
            Function(
                "f maps an array of the shape of x to a number, x (...) -> (...)",
                "eq:central-difference",
                "f, x, h=1e-5",
            ),
        ),
        points=difference_points,
        hints=(
            "One entry after the other: step it up, step it down, and leave all others where they "
            "are.",
            "`x.flat[i]` is entry i of an array of any shape. The array belongs to the caller: "
            "step a copy, or put every entry back.",
            "Two numbers of f, and how far apart the two points are: what is the slope between "
            "them?",
        ),
    ),
    Exercise(
        name="complex_step",
        chapter="110_gradient_check",
        forward=gradient_check.complex_step,
        functions=(
            Function(
                "f maps a complex array of the shape of x to a number, x (...) -> (...), real",
                "eq:complex-step",
                "f, x, h=1e-20",
            ),
        ),
        points=complex_points,
        hints=(
            "An array of floats has no room for an imaginary part.",
            "Step one entry of a complex copy, call f once, and put the entry back.",
            "Where in the value of f does the derivative stand, and by which factor is it too "
            "small there?",
        ),
    ),
    Exercise(
        name="gradient_error",
        chapter="110_gradient_check",
        forward=gradient_check.gradient_error,
        functions=(
            Function(
                "gradient and reference (...) -> norm, worst: two numbers", "eq:gradient-error"
            ),
        ),
        returns=("norm", "worst"),
        points=error_points,
        hints=(
            "The norm compares the arrays as a whole, the worst compares entry with entry. Each "
            "has a denominator of its own.",
            "The scale is a lower bound of both denominators. Nothing else is added to them.",
            "Where a denominator is 0, the numerator is 0 as well, and the error counts as 0: "
            "put another number there before you divide.",
        ),
    ),
    OpExercise(
        name="spread",
        chapter="110_gradient_check",
        forward=spread,
        backward=spread_backward,
        functions=(
            Function(
                "x (..., D), gamma (D,) -> y (..., D), cache",
                "y = gamma * (x - mean(x))^2, the mean of each row",
            ),
            Function("dy (..., D) -> dx (..., D), dgamma (D,)", "yours to derive"),
        ),
        inputs=("x", "gamma"),
        points=spread_points,
        hints=(
            "The section on generic points has almost the same function. What is the gradient of "
            "the centred row now?",
            "An entry of x acts through its own place and through the mean of its row, which every "
            "place subtracts.",
            "All rows share gamma: over which axes does its gradient sum?",
        ),
        theorems=(
            Theorem("every row of dx sums to 0", row_sums("dx")),
            Theorem("<dgamma, gamma> = <dy, y>: y is linear in gamma", linear_in_gamma),
        ),
        terms={"dx": spread_terms},
    ),
]
