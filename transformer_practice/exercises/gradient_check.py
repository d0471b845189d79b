"""Chapter 110: how to trust a gradient."""

import numpy as np

from transformer_core import gradient_check
from transformer_practice.engine.exercise import Exercise, OpExercise
from transformer_practice.engine.points import Point, normal, sampler
from transformer_practice.exercises.structure import same_products, zero_sums


def cubes(x):
    return (np.arange(1, x.size + 1).reshape(x.shape) * x * x * x).sum()


def coupled(x):
    return np.exp(x).sum() * (x * x).sum()


def straight(x):
    return (np.arange(3, x.size + 3).reshape(x.shape) * x).sum()


def fast(x):
    return np.sin(1e4 * x).sum()


def points_of_functions(generic):
    return [
        generic,
        generic.variant("one entry", x=generic.arguments["x"][:1, 1]),
        generic.variant("three axes", x=normal(2, 2, 3, 4)),
        generic.variant("entries of 0", x=np.zeros((2, 3))),
        generic.variant("a linear function", f=straight),
        generic.variant("entries that act alone", f=cubes),
    ]


def difference_points():
    x = normal(1, 2, 3)
    generic = Point("generic", {"f": coupled, "x": x, "h": 0.1}, sizes={"2 h": 0.2})
    return [
        *points_of_functions(generic),
        generic.variant("a smaller step", h=0.01),
        Point("the step of the signature", {"f": fast, "x": 1e-4 * x}),
        Point(
            "generic, other sizes", {"f": coupled, "x": normal(3, 4), "h": 0.05}, sizes={"2 h": 0.1}
        ),
    ]


def complex_points():
    x = normal(1, 2, 3)
    return [
        *points_of_functions(Point("generic", {"f": coupled, "x": x})),
        Point("a large step", {"f": coupled, "x": x, "h": 0.1}, sizes={"h": 0.1}),
        Point("generic, other sizes", {"f": coupled, "x": normal(3, 4)}),
    ]


def error_points():
    a = normal(1, 2, 3)
    generic = Point(
        "generic", {"gradient": a, "reference": a + 0.1 * normal(2, 2, 3), "scale": 0.4}
    )
    zeros, large = np.zeros((2, 3)), a * (np.abs(a) > 0.5)
    return [
        generic,
        generic.variant("no scale", scale=0.0),
        generic.variant("a scale above both", scale=10.0),
        generic.variant("equal gradients", reference=a),
        generic.variant("a gradient of zeros", gradient=zeros),
        generic.variant("two gradients of zeros", gradient=zeros, reference=zeros, scale=0.0),
        generic.variant(
            "an entry that is 0 in both", gradient=large, reference=1.1 * large, scale=0.0
        ),
        generic.variant("the opposite direction", reference=-a),
        generic.variant(
            "gradients in small units", gradient=1e-9 * a, reference=1.1e-9 * a, scale=0.0
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
    draw = sampler("B T D", x="B T D", gamma="D", cotangent="B T D")
    generic = draw("generic", 3, 4, 7)
    x = generic.arguments["x"]
    return [
        generic,
        generic.variant("gamma = 1", gamma=np.ones(7)),
        generic.sliced("one row", np.s_[:1, :1], "x"),
        generic.sliced("no batch axis", 0, "x"),
        generic.variant("cotangent of ones", cotangent=np.ones(x.shape)),
        generic.variant(
            "gamma = 1, cotangent of ones", gamma=np.ones(7), cotangent=np.ones(x.shape)
        ),
        draw("generic, other sizes", 2, 3, 5),
    ]


def spread_terms(point):
    _, (centred, gamma) = spread(**point.arguments)
    g = 2 * point.cotangent * gamma * centred
    return {
        "the term of its own place": g,
        "the mean term": -g.mean(axis=-1, keepdims=True) * np.ones_like(g),
    }


EXERCISES = [
    Exercise(forward=gradient_check.central_difference, points=difference_points, restores=True),
    Exercise(forward=gradient_check.complex_step, points=complex_points, restores=True),
    Exercise(forward=gradient_check.gradient_error, returns=("norm", "worst"), points=error_points),
    OpExercise(
        forward=spread,
        inputs=("x", "gamma"),
        points=spread_points,
        theorems=(
            zero_sums("every row of dx sums to 0", "dx"),
            same_products("<dgamma, gamma> = <dy, y>: y is linear in gamma", "gamma", of=spread),
        ),
        terms={"dx": spread_terms},
    ),
]
