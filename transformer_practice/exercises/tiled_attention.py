"""Chapter 580: attention without the square of memory."""

import numpy as np

from transformer_core import ops
from transformer_practice.engine.exercise import Exercise, OpExercise, Theorem
from transformer_practice.engine.points import sampler
from transformer_practice.exercises.attention import draw_attention, shared_products


def tiled_attention(query, key, value, keep=None, tile=2):
    """Attend tile by tile."""
    return ops.tiled_attention(query, key, value, keep, tile=tile)


def tiled_attention_backward(doutput, cache):
    """Compute each tile of weights again."""
    return ops.tiled_attention_backward(doutput, cache)


def tiled_points():
    generic = draw_attention("generic", 2, 3, 5, 7, 4, 6).variant("generic", tile=2)
    query, key, value, keep, _ = generic.arguments.values()
    nothing = keep.copy()
    nothing[1, 0, 2] = False
    return [
        generic,
        generic.variant("no mask", keep=None),
        generic.variant("one tile", tile=9),
        generic.variant("one key at a time", tile=1),
        generic.variant("a query without keys", keep=nothing),
        generic.variant(
            "as many queries as keys, each sees its past",
            key=key[:, :, :5],
            value=value[:, :, :5],
            keep=ops.causal_keep(5),
        ),
        generic.variant("equal scores", query=np.zeros(query.shape), keep=None),
        generic.variant("large scores", query=30.0 * query, keep=None),
        draw_attention("generic", 3, 2, 4, 8, 5, 3).variant("generic, other sizes", tile=3),
    ]


def merge_attention(output, log_sum_exp, other_output, other_log_sum_exp):
    """Attend to the keys of both."""
    merged = np.logaddexp(log_sum_exp, other_log_sum_exp)
    shift = np.where(merged == -np.inf, 0, merged)
    one, other = np.exp(log_sum_exp - shift), np.exp(other_log_sum_exp - shift)
    return one[..., np.newaxis] * output + other[..., np.newaxis] * other_output, merged


def merge_points():
    draw = sampler(
        "B T d_v",
        output="B T d_v",
        log_sum_exp="B T",
        other_output="B T d_v",
        other_log_sum_exp="B T",
    )
    generic = draw("generic", 2, 5, 3)
    output, log_sum_exp, other_output, other = generic.arguments.values()
    without = np.zeros(output.shape[:2], bool)
    without[0, :3] = True
    return [
        generic,
        generic.variant("far apart", log_sum_exp=1000 * log_sum_exp),
        generic.variant(
            "far above 0", log_sum_exp=1e4 + log_sum_exp, other_log_sum_exp=1e4 + other
        ),
        generic.variant(
            "rows without keys on one side",
            output=np.where(without[..., np.newaxis], 0, output),
            log_sum_exp=np.where(without, -np.inf, log_sum_exp),
        ),
        generic.variant(
            "rows without keys on both sides",
            output=np.where(without[..., np.newaxis], 0, output),
            log_sum_exp=np.where(without, -np.inf, log_sum_exp),
            other_output=np.where(without[..., np.newaxis], 0, other_output),
            other_log_sum_exp=np.where(without, -np.inf, other),
        ),
        draw("generic, other sizes", 3, 4, 2),
    ]


EXERCISES = [
    OpExercise(
        forward=tiled_attention,
        inputs=("query", "key", "value"),
        points=tiled_points,
        theorems=(Theorem("query^T dquery = dkey^T key", shared_products),),
    ),
    Exercise(forward=merge_attention, points=merge_points, returns=("output", "log_sum_exp")),
]
