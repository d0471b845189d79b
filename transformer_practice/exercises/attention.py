"""Chapter 210: attention."""

import numpy as np

from transformer_core import ops
from transformer_practice.engine.exercise import Exercise, OpExercise, Theorem
from transformer_practice.engine.points import sampler
from transformer_practice.exercises.structure import zero_sums


def random_keep(B, H, T, S):
    """Draw a mask that leaves every query a key."""
    keep = np.random.default_rng(5).random((B, H, T, S)) < 0.7
    keep[..., 0] |= ~keep.any(axis=-1)
    return keep


def keep_with_a_full_row(B, H, T, S):
    keep = random_keep(B, H, T, S)
    keep[0, 0, 0] = True
    return keep


draw_attention = sampler(
    "B H T S d_k d_v",
    query="B H T d_k",
    key="B H S d_k",
    value="B H S d_v",
    keep=keep_with_a_full_row,
    cotangent="B H T d_v",
)


def attention_points():
    generic = draw_attention("generic", 2, 3, 5, 7, 11, 13)
    query, key, value, keep = generic.arguments.values()
    nothing = keep.copy()
    nothing[1, 0, 2] = False
    return [
        generic,
        generic.variant("no mask", keep=None),
        generic.variant("a query without keys", keep=nothing),
        generic.variant("one key", key=key[:, :, :1], value=value[:, :, :1], keep=None),
        generic.sliced("no axis of heads", np.s_[:, 0], *generic.arguments),
        generic.variant(
            "as many queries as keys, each sees its past",
            key=key[:, :, :5],
            value=value[:, :, :5],
            keep=ops.causal_keep(5),
        ),
        generic.variant("d_k = 1", query=query[..., :1], key=key[..., :1]),
        generic.variant("equal scores", query=np.zeros(query.shape), keep=None),
        generic.variant("large scores", query=300.0 * query),
        generic.variant("cotangent of ones", cotangent=np.ones(generic.cotangent.shape)),
        draw_attention("generic, other sizes", 3, 2, 4, 3, 5, 7),
    ]


def shared_products(point, outputs):
    query, key = point.arguments["query"], point.arguments["key"]
    left = query.swapaxes(-1, -2) @ outputs["dquery"]
    right = outputs["dkey"].swapaxes(-1, -2) @ key
    return relative(left - right, left)


def sum_of_values(point, outputs):
    keep = point.arguments["keep"]
    attends = 1.0 if keep is None else keep.any(axis=-1, keepdims=True)
    collected = (attends * point.cotangent).sum(axis=-2)
    return relative(outputs["dvalue"].sum(axis=-2) - collected, collected)


def relative(deviation, scale):
    """Return the largest deviation, in units of the largest entry of an array."""
    return np.abs(deviation).max() / (np.abs(scale).max() or 1)


def plain(query, key, value, keep=None):
    root = np.sqrt(query.shape[-1])
    scores = query @ key.swapaxes(-1, -2) / root
    weights, _ = ops.softmax(scores, keep)
    output = weights @ value
    return output, (query, key, value, root, weights, output)


def plain_backward(dy, cache):
    query, key, value, root, weights, _ = cache
    dweights = dy @ value.swapaxes(-1, -2)
    coupling = (weights * dweights).sum(axis=-1, keepdims=True)
    dscores = weights * (dweights - coupling) / root
    dquery = dscores @ key
    dkey = dscores.swapaxes(-1, -2) @ query
    dvalue = weights.swapaxes(-1, -2) @ dy
    return dquery, dkey, dvalue


def score_terms(to_input):
    """Return the two terms of a gradient that the scores' comes to by ``to_input``."""

    def terms(point):
        query, key, value, _ = point.arguments.values()
        _, cache = ops.attention(*point.arguments.values())
        dweights = point.cotangent @ value.swapaxes(-1, -2)
        coupling = (dweights * cache.weights).sum(axis=-1, keepdims=True)
        factor = cache.weights / query.shape[-1] ** 0.5
        return {
            "the term of each weight's own score": to_input(factor * dweights, query, key),
            "the coupling term": to_input(-factor * coupling, query, key),
        }

    return terms


KEYS_SUM_TO_0 = zero_sums("the gradients of all keys sum to 0", "dkey", axis=-2)


def streaming_attention(query, key, value, block):
    """Read the keys block by block, and never hold a row of weights."""
    top = np.full((len(query), 1), -np.inf)
    total = np.zeros((len(query), 1))
    output = np.zeros((len(query), value.shape[1]))
    for start in range(0, len(key), block):
        part = slice(start, start + block)
        scores = query @ key[part].T / np.sqrt(key.shape[1])
        new_top = np.maximum(top, scores.max(axis=1, keepdims=True))
        correction = np.exp(top - new_top)
        exponentials = np.exp(scores - new_top)
        total = total * correction + exponentials.sum(axis=1, keepdims=True)
        output = output * correction + exponentials @ value[part]
        top = new_top
    return output / total


def streaming_points():
    draw = sampler("T S d_k d_v", query="T d_k", key="S d_k", value="S d_v", block=3)
    generic = draw("generic", 5, 7, 3, 2)
    query, key = generic.arguments["query"], generic.arguments["key"]
    return [
        generic,
        generic.variant("one block", block=10),
        generic.variant("one key at a time", block=1),
        generic.variant("large scores", query=1000.0 * query),
        generic.variant("scores far below 0", query=1e5 * np.abs(query), key=-np.abs(key)),
        draw("generic, other sizes", 2, 6, 5, 3).variant("generic, other sizes", block=2),
    ]


EXERCISES = [
    OpExercise(
        forward=ops.attention,
        plain=(plain, plain_backward),
        inputs=("query", "key", "value"),
        points=attention_points,
        theorems=(
            Theorem("Q^T dQ = dK^T K: queries and keys enter by their product", shared_products),
            KEYS_SUM_TO_0,
            Theorem("the gradients of all values sum to those of the outputs", sum_of_values),
        ),
        terms={
            "dquery": score_terms(lambda dscores, query, key: dscores @ key),
            "dkey": score_terms(lambda dscores, query, key: dscores.swapaxes(-1, -2) @ query),
        },
    ),
    Exercise(forward=streaming_attention, points=streaming_points),
]
