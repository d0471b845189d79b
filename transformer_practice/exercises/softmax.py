"""Chapter 130: softmax."""

import numpy as np

from transformer_core import ops
from transformer_practice.engine.exercise import OpExercise
from transformer_practice.engine.points import sampler
from transformer_practice.exercises.structure import zero_sums


def softmax_points():
    def random_keep(B, T, S):
        keep = np.random.default_rng(7).random((B, T, S)) < 0.7
        keep[0, 0], keep[-1, -1] = True, False
        keep[..., 0] |= ~keep.any(axis=-1)
        return keep

    draw = sampler("B T S", x="B T S", keep=random_keep, cotangent="B T S")
    generic = draw("generic", 2, 3, 5)
    keep = generic.arguments["keep"]
    nothing = keep.copy()
    nothing[1, 1] = False
    return [
        generic,
        generic.variant("no mask", keep=None),
        generic.variant("a row without keys", keep=nothing),
        generic.variant("one key", keep=np.arange(5) == 2),
        generic.variant("equal scores", x=np.zeros(keep.shape), keep=None),
        generic.variant("large scores", x=800.0 * generic.arguments["x"]),
        generic.variant("large scores, no mask", x=800.0 * generic.arguments["x"], keep=None),
        generic.variant("cotangent of ones", cotangent=np.ones(keep.shape)),
        draw("generic, other sizes", 3, 2, 4),
    ]


def softmax_terms(point):
    weights, _ = ops.softmax(point.arguments["x"], point.arguments["keep"])
    coupling = (point.cotangent * weights).sum(axis=-1, keepdims=True)
    return {
        "the term of its own score": weights * point.cotangent,
        "the coupling term": -weights * coupling,
    }


def log_softmax(x):
    y = ops.log_softmax(x)
    return y, y


def log_softmax_backward(dy, y):
    return dy - np.exp(y) * dy.sum(axis=-1, keepdims=True)


def log_softmax_points():
    draw = sampler("B T S", x="B T S", cotangent="B T S")
    generic = draw("generic", 2, 3, 5)
    x, cotangent = generic.arguments["x"], generic.cotangent
    return [
        generic,
        generic.sliced("one row", np.s_[0, 0], "x"),
        generic.sliced("one score", np.s_[..., :1], "x"),
        generic.variant("equal scores", x=np.zeros(x.shape)),
        generic.variant("large scores", x=800.0 * x),
        generic.variant("cotangent of ones", cotangent=np.ones(x.shape)),
        generic.variant(
            "cotangent that sums to 0", cotangent=cotangent - cotangent.mean(axis=-1, keepdims=True)
        ),
        draw("generic, other sizes", 3, 2, 4),
    ]


def log_softmax_terms(point):
    dy, weights = point.cotangent, np.exp(ops.log_softmax(point.arguments["x"]))
    return {
        "the term of its own score": dy,
        "the log-sum-exp term": -weights * dy.sum(axis=-1, keepdims=True),
    }


EXERCISES = [
    OpExercise(
        forward=ops.softmax,
        inputs=("x",),
        points=softmax_points,
        theorems=(zero_sums("every row of dx sums to 0", "dx"),),
        terms={"dx": softmax_terms},
    ),
    OpExercise(
        forward=log_softmax,
        inputs=("x",),
        points=log_softmax_points,
        theorems=(zero_sums("every row of dx sums to 0", "dx"),),
        terms={"dx": log_softmax_terms},
    ),
]
