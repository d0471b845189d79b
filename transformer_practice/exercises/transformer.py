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
    B, T, D = x.shape
    projected, _ = ops.linear(x, W_qkv, b_qkv)
    query, key, value = projected.reshape(B, T, 3, H, D // H).transpose(2, 0, 3, 1, 4)
    scores = np.einsum("bhqk,bhsk->bhqs", query, key) / np.sqrt(D // H)
    weights, _ = ops.softmax(scores, np.tri(T, dtype=bool))
    found = np.einsum("bhqs,bhsk->bqhk", weights, value)
    return ops.linear(found.reshape(B, T, D), W_o, b_o)[0]


def causal_points():
    draw = sampler(
        "B T H D",
        x="B T D",
        W_qkv=lambda D: normal(2, D, 3 * D),
        b_qkv=lambda D: normal(3, 3 * D),
        W_o=("D D", 4),
        b_o=("D", 5),
        H=lambda H: H,
        sizes={"the square root of K": lambda H, D: (D // H) ** 0.5},
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
    Exercise(forward=causal_attention, points=causal_points, within=("ops/softmax.py",)),
]
