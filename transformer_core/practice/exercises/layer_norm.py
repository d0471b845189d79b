"""Chapter 150: layer normalisation."""

import numpy as np

from transformer_core import ops
from transformer_core.practice.exercise import (
    Function,
    OpExercise,
    Point,
    Theorem,
    normal,
    variants,
)


def layer_norm_points():
    def draw(name, batch, length, width):
        return Point(
            name,
            {
                "x": normal(1, batch, length, width),
                "gamma": normal(2, width),
                "beta": normal(3, width),
                "eps": 0.1,
            },
            normal(4, batch, length, width),
            {"B": batch, "T": length, "D": width},
        )

    generic = draw("generic", 3, 4, 7)
    x, cotangent = generic.arguments["x"], generic.cotangent
    constant = x.copy()
    constant[1, 2] = 3.0
    return [
        *variants(
            generic,
            {
                "gamma = 1": {"gamma": np.ones(7)},
                "one row": {"x": x[:1, :1], "cotangent": cotangent[:1, :1]},
                "no batch axis": {"x": x[0], "cotangent": cotangent[0]},
                "a constant row": {"x": constant},
                "a large mean": {"x": x + 1000.0},
                "cotangent of ones": {"cotangent": np.ones(x.shape)},
            },
        ),
        draw("generic, other sizes", 2, 3, 5),
    ]


def sums_of_rows(point, outputs):
    dx = outputs["dx"]
    return np.abs(dx.sum(axis=-1)).max() / np.abs(dx).max()


def layer_norm_terms(point):
    arguments = point.arguments
    _, (x_hat, inv_std, gamma) = ops.layer_norm(*arguments.values())
    g = point.cotangent * gamma
    return {
        "the scale term": inv_std * g,
        "the mean term": -inv_std * g.mean(axis=-1, keepdims=True) * np.ones_like(g),
        "the variance term": -inv_std
        * x_hat
        * (g * x_hat).mean(axis=-1, keepdims=True),
    }


EXERCISES = [
    OpExercise(
        name="layer_norm",
        chapter="150_layer_norm",
        forward=ops.layer_norm,
        backward=ops.layer_norm_backward,
        functions=(
            Function(
                "x, gamma, beta, eps=1e-5",
                "x (..., D), gamma and beta (D,) -> y (..., D), cache",
                "eq:layer-norm",
            ),
            Function(
                "dy, cache",
                "dy (..., D) -> dx (..., D), dgamma (D,), dbeta (D,)",
                "eq:layer-norm-backward",
            ),
        ),
        inputs=("x", "gamma", "beta"),
        points=layer_norm_points,
        hints=(
            "There are three ways from an entry of x to y. Name them before you differentiate.",
            "Multiply the cotangent by gamma first, and call the result g: the rest of the "
            "derivation knows nothing of gamma.",
            "The ways by the mean and by the variance both end in a mean over the D entries of a "
            "position: one of g, one of g times x_hat.",
        ),
        theorems=(Theorem("every row of dx sums to 0", sums_of_rows),),
        terms={"dx": layer_norm_terms},
    ),
]
