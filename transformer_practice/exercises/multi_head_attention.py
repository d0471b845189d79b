"""Chapter 220: heads, and multi-head attention."""

import numpy as np

from transformer_core import ops
from transformer_core.layers import AttentionSpec, MultiHeadCrossAttention, MultiHeadSelfAttention
from transformer_practice.engine.exercise import Exercise, LayerExercise, OpExercise, Theorem
from transformer_practice.engine.points import Point, drawn, normal, sampler
from transformer_practice.exercises.attention import random_keep, relative


def split_points():
    def draw(name, seed, B, T, H, d_k):
        arguments = {"x": normal(seed, B, T, H * d_k), "heads": H}
        return Point(name, arguments, sizes={"B": B, "T": T, "H": H, "d_k": d_k})

    generic = draw("generic", 1, 2, 5, 3, 7)
    return [
        generic,
        generic.variant("one head", heads=1),
        generic.variant("d_k = 1", heads=21),
        draw("generic, other sizes", 2, 3, 4, 2, 5),
    ]


def merge_points():
    generic = sampler("B H T d_k", x="B H T d_k")("generic", 2, 3, 5, 7)
    x = generic.arguments["x"]
    return [
        generic,
        generic.variant("one head", x=x[:, :1]),
        generic.variant("one position", x=x[:, :, :1]),
        generic.variant("as many heads as positions", x=x[:, :, :3]),
        generic.variant(
            "positions before heads in memory", x=np.asfortranarray(x.swapaxes(1, 2)).swapaxes(1, 2)
        ),
        sampler("B H T d_k", x=("B H T d_k", 2))("generic, other sizes", 3, 2, 4, 5),
    ]


def build(kind, width, heads, key_width, value_width):
    spec = AttentionSpec(heads, key_width, value_width)
    rng = np.random.default_rng(0)
    return drawn(lambda dtype: kind(width, spec, rng, dtype), seed=9)


draw_self = sampler(
    "B T D H d_k d_v",
    self=lambda D, H, d_k, d_v: build(MultiHeadSelfAttention, D, H, d_k, d_v),
    x=lambda B, T, D: normal(1, B, T, D) / 3,
    keep=lambda B, H, T: random_keep(B, H, T, T),
    cotangent=("B T D", 4),
)


def self_points():
    generic = draw_self("generic", 2, 5, 11, 3, 7, 13)
    keep = generic.arguments["keep"]
    nothing = keep.copy()
    nothing[1, :, 2] = False
    return [
        generic,
        generic.variant("no mask", keep=None),
        generic.variant("each position sees its past", keep=ops.causal_keep(5)),
        generic.variant("a query without keys", keep=nothing),
        generic.variant(
            "one head", self=build(MultiHeadSelfAttention, 11, 1, 7, 13), keep=keep[:, :1]
        ),
        generic.variant("d_k = d_v", self=build(MultiHeadSelfAttention, 11, 3, 4, 4)),
        generic.sliced("one sequence", np.s_[:1], "x", "keep"),
        draw_self("generic, other sizes", 3, 4, 7, 2, 5, 6),
    ]


draw_cross = sampler(
    "B T S D H d_k d_v",
    self=lambda D, H, d_k, d_v: build(MultiHeadCrossAttention, D, H, d_k, d_v),
    x=lambda B, T, D: normal(1, B, T, D) / 3,
    source=lambda B, S, D: normal(2, B, S, D) / 3,
    keep=random_keep,
    cotangent=("B T D", 4),
)


def cross_points():
    generic = draw_cross("generic", 2, 5, 6, 11, 3, 7, 13)
    source, keep = generic.arguments["source"], generic.arguments["keep"]
    return [
        generic,
        generic.variant("no mask", keep=None),
        generic.variant("as many queries as keys", source=source[:, :5], keep=keep[..., :5]),
        generic.variant("one key", source=source[:, :1], keep=None),
        generic.variant(
            "one head", self=build(MultiHeadCrossAttention, 11, 1, 7, 13), keep=keep[:, :1]
        ),
        generic.variant("d_k = d_v", self=build(MultiHeadCrossAttention, 11, 3, 4, 4)),
        draw_cross("generic, other sizes", 3, 5, 4, 8, 2, 7, 6),
    ]


def ways_by(projection, *parts):
    """Return the terms of an input: the ways by the parts of a projection."""

    def terms(point):
        make, *inputs = point.arguments.values()
        layer = make(np.float64)
        _, cache = layer.forward(*inputs)
        dparts, _ = layer.attend_backward(point.cotangent, cache)
        weights = np.split(getattr(layer, projection).weight, layer.edges, axis=1)
        ways = zip(parts, dparts[-len(parts) :], weights, strict=True)
        return {f"the path through the {part}": dpart @ weight.T for part, dpart, weight in ways}

    return terms


def biases(projection):
    """Return what holds for the biases of a layer whose keys are last but one in a projection."""

    def of_keys(point, outputs):
        *first, last = point.arguments["self"](np.float64).edges
        dbias = outputs[f"d{projection}.bias"]
        return relative(dbias[sum(first) : last], dbias)

    def of_output(point, outputs):
        total = point.cotangent.sum(axis=(0, 1))
        return relative(outputs["doutput.bias"] - total, total)

    return (
        Theorem("the bias of the keys gets no gradient", of_keys),
        Theorem("the gradient of the output's bias is the sum of dy", of_output),
    )


def multi_query_attention(query, key, value, keep=None):
    """Attend in all heads to the same keys and values (B, S, d_k)."""
    copies = query.shape[:2]
    shared = [np.broadcast_to(a[:, np.newaxis], (*copies, *a.shape[1:])) for a in (key, value)]
    return ops.attention(query, *shared, keep)


def multi_query_attention_backward(doutput, cache):
    """Sum the gradients of the copies."""
    dquery, dkey, dvalue = ops.attention_backward(doutput, cache)
    return dquery, dkey.sum(axis=1), dvalue.sum(axis=1)


def multi_query_points():
    def keep_with_an_empty_row(*sizes):
        keep = random_keep(*sizes)
        keep[0, 0, 0] = False
        return keep

    draw = sampler(
        "B H T S d_k d_v",
        query="B H T d_k",
        key="B S d_k",
        value="B S d_v",
        keep=random_keep,
        cotangent="B H T d_v",
    )
    generic = draw("generic", 2, 3, 5, 7, 11, 13)
    return [
        generic,
        generic.variant("no mask", keep=None),
        generic.variant("a query without keys", keep=keep_with_an_empty_row(2, 3, 5, 7)),
        generic.sliced("one head", np.s_[:, :1], "query", "keep"),
        draw("generic, other sizes", 3, 2, 4, 3, 5, 7),
    ]


EXERCISES = [
    Exercise(forward=ops.split_heads, points=split_points),
    Exercise(forward=ops.merge_heads, points=merge_points),
    LayerExercise(
        forward=MultiHeadSelfAttention.forward,
        inputs=("x",),
        points=self_points,
        theorems=biases("query_key_value"),
        terms={"dx": ways_by("query_key_value", "queries", "keys", "values")},
    ),
    LayerExercise(
        forward=MultiHeadCrossAttention.forward,
        inputs=("x", "source"),
        points=cross_points,
        theorems=biases("key_value"),
        terms={"dsource": ways_by("key_value", "keys", "values")},
    ),
    OpExercise(
        forward=multi_query_attention, inputs=("query", "key", "value"), points=multi_query_points
    ),
]
