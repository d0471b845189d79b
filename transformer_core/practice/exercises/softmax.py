"""Chapter 130: softmax."""

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


def softmax_points():
    def draw(name, batch, length, keys):
        shape = batch, length, keys
        keep = np.random.default_rng(7).random(shape) < 0.7
        keep[0, 0], keep[-1, -1] = True, False
        keep[..., 0] |= ~keep.any(axis=-1)
        return Point(
            name,
            {"x": normal(1, *shape), "keep": keep},
            normal(2, *shape),
            {"B": batch, "T": length, "S": keys},
        )

    generic = draw("generic", 2, 3, 5)
    keep = generic.arguments["keep"]
    nothing = keep.copy()
    nothing[1, 1] = False
    return [
        *variants(
            generic,
            {
                "no mask": {"keep": None},
                "a row without keys": {"keep": nothing},
                "one key": {"keep": np.arange(5) == 2},
                "equal scores": {"x": np.zeros(keep.shape), "keep": None},
                "large scores": {"x": 800.0 * generic.arguments["x"]},
                "cotangent of ones": {"cotangent": np.ones(keep.shape)},
            },
        ),
        draw("generic, other sizes", 3, 2, 4),
    ]


def row_sums(point, outputs):
    dx = outputs["dx"]
    return np.abs(dx.sum(axis=-1)).max() / (np.abs(dx).max() or 1)


def softmax_terms(point):
    weights, _ = ops.softmax(point.arguments["x"], point.arguments["keep"])
    coupling = (point.cotangent * weights).sum(axis=-1, keepdims=True)
    return {
        "the term of its own score": weights * point.cotangent,
        "the coupling term": -weights * coupling,
    }


EXERCISES = [
    OpExercise(
        name="softmax",
        chapter="130_softmax",
        forward=ops.softmax,
        backward=ops.softmax_backward,
        functions=(
            Function(
                "x, keep=None",
                "x (..., S), keep of booleans or None -> weights (..., S), cache; a row that keeps "
                "nothing gets zeros",
                "eq:softmax",
            ),
            Function(
                "dweights, cache",
                "dweights (..., S) -> dx (..., S)",
                "eq:softmax-backward",
            ),
        ),
        inputs=("x",),
        points=softmax_points,
        hints=(
            "How does weight j change when score i grows, for j = i and for j other than i?",
            "Every score changes every weight of its row, so the gradient of a score collects the "
            "cotangents of all weights: a sum over j.",
            "Write the Jacobian as a diagonal matrix minus an outer product, and multiply it by "
            "the cotangent from the left before you simplify.",
        ),
        theorems=(Theorem("every row of dx sums to 0", row_sums),),
        terms={"dx": softmax_terms},
    ),
]
