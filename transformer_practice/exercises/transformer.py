"""Chapter 010: what a Transformer is."""

import numpy as np

from transformer_core import ops
from transformer_practice.engine.exercise import Exercise
from transformer_practice.engine.points import Point, normal, sampler


def count_parameters(V, T, D, H, F, L):
    attention, feed_forward, norm = 4 * (D * D + D), 2 * D * F + F + D, 2 * D
    return (V + T) * D + L * (attention + feed_forward + 2 * norm) + norm + V


def count_points():
    def draw(name, **sizes):
        return Point(name, sizes, sizes=sizes)

    generic = draw("generic", V=100, T=8, D=6, H=3, F=11, L=2)
    return [
        generic,
        generic.variant("one layer", L=1),
        generic.variant("one head", H=1),
        generic.variant("F = D", F=6),
        draw("generic, other sizes", V=37, T=5, D=8, H=4, F=13, L=3),
    ]


def causal_attention(x, W_qkv, b_qkv, W_o, b_o, H):
    projected, _ = ops.linear(x, W_qkv, b_qkv)
    parts = (ops.split_heads(part, H) for part in np.split(projected, 3, axis=-1))
    found, _ = ops.attention(*parts, ops.causal_keep(x.shape[1]))
    return ops.linear(ops.merge_heads(found), W_o, b_o)[0]


def plain(x, W_qkv, b_qkv, W_o, b_o, H):
    B, T, D = x.shape
    query, key, value = (x @ W_qkv + b_qkv).reshape(B, T, 3, H, D // H).transpose(2, 0, 3, 1, 4)
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(D // H)
    weights, _ = ops.softmax(scores, np.tri(T, dtype=bool))
    found = (weights @ value).swapaxes(1, 2).reshape(B, T, D)
    return found @ W_o + b_o


def causal_points():
    draw = sampler(
        "B T H D",
        x="B T D",
        W_qkv=lambda D: normal(2, D, 3 * D),
        b_qkv=lambda D: normal(3, 3 * D),
        W_o=("D D", 4),
        b_o=("D", 5),
        H=lambda H: H,
        sizes={"the square root of d_k": lambda H, D: (D // H) ** 0.5},
    )
    generic = draw("generic", 2, 4, 3, 15)
    x = generic.arguments["x"]
    return [
        generic,
        generic.variant("one position", x=x[:, :1]),
        generic.variant("two positions", x=x[:, :2]),
        generic.variant("one head", H=1),
        generic.variant("one sequence", x=x[:1]),
        generic.variant("a repeated word", x=x[:, [0, 0, 1, 0]]),
        generic.variant("large scores", x=30 * x),
        draw("generic, other sizes", 3, 5, 2, 14),
    ]


EXERCISES = [
    Exercise(forward=count_parameters, points=count_points),
    Exercise(forward=causal_attention, plain=(plain,), points=causal_points),
]
