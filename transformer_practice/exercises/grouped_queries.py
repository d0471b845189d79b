"""Chapter 540: grouped queries, and what else keeps the scores of long sequences in bounds."""

from transformer_core import ops
from transformer_core.layers import QkNorm
from transformer_practice.engine.exercise import Exercise, LayerExercise, OpExercise
from transformer_practice.engine.points import drawn, sampler
from transformer_practice.exercises.attention import random_keep
from transformer_practice.exercises.rotary import drawing
from transformer_practice.exercises.structure import given, same_products


def grouped_attention(query, key, value, keep=None):
    """Attend with H heads of queries to G heads of keys and values."""
    return ops.attention(query, key, value, keep)


def grouped_attention_backward(doutput, cache):
    """Sum over the heads that share."""
    return ops.attention_backward(doutput, cache)


def grouped_points():
    draw = sampler(
        "B H G T S d_k d_v",
        query="B H T d_k",
        key="B G S d_k",
        value="B G S d_v",
        keep=random_keep,
        cotangent="B H T d_v",
    )
    generic = draw("generic", 3, 8, 2, 5, 7, 4, 6)
    return [
        generic,
        generic.variant("no mask", keep=None),
        draw("one head of keys", 2, 3, 1, 5, 7, 4, 2),
        draw("as many heads of keys as of queries", 2, 3, 3, 5, 7, 4, 2),
        draw("one query", 2, 6, 3, 1, 7, 4, 5),
        draw("generic, other sizes", 2, 9, 3, 4, 5, 7, 6),
    ]


def window_points():
    point = given("length window", lambda T, w: {"T": T, "w": w})
    return [
        point("generic", 9, 3),
        point("a window of one", 5, 1),
        point("a window as long as the sequence", 5, 5),
        point("a window longer than the sequence", 4, 11),
        point("generic, other sizes", 12, 5),
    ]


def cap_points():
    draw = sampler("B T V", x="B T V", cap=1.5, cotangent="B T V")
    generic = draw("generic", 2, 3, 5)
    x = generic.arguments["x"]
    return [
        generic,
        generic.variant("a cap of 1", cap=1.0),
        generic.variant("a high cap", cap=30.0),
        generic.variant("numbers far above the cap", x=100.0 * x),
        draw("generic, other sizes", 4, 2, 3),
    ]


def norm_points():
    def build(d_k, halves):
        return drawn(lambda dtype: QkNorm(d_k, dtype, halves, 50.0, eps=0.1), seed=9)

    draw = drawing(build)
    return [
        draw("generic", 3, False, 2, 3, 5, 8),
        draw("halves", 3, True, 2, 3, 5, 8),
        draw("one head", 3, False, 2, 1, 5, 8),
        draw("from position 0", 0, False, 2, 3, 5, 8),
        draw("generic, other sizes", 6, False, 3, 2, 4, 6),
    ]


EXERCISES = [
    OpExercise(
        forward=grouped_attention,
        inputs=("query", "key", "value"),
        points=grouped_points,
        theorems=(same_products("<dquery, query> = <dkey, key>", "query", "key"),),
    ),
    LayerExercise(forward=QkNorm.forward, inputs=("x",), points=norm_points),
    Exercise(forward=ops.window_keep, points=window_points),
    OpExercise(forward=ops.soft_cap, inputs=("x",), points=cap_points),
]
