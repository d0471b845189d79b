"""Dropout of the embedding of *cats*, with the mask of the example."""

import numpy as np
from graphs import Graph, number, row

from transformer_core.ops.dropout import DropoutCache, dropout_backward
from transformer_core.sentence import EMBEDDING

x = EMBEDDING[0]
rate = 0.5
mask = np.array([True, False, True, True])
dy = np.array([1.0, 2, -1, 1])
cache = DropoutCache(mask, rate)
y, dx = dropout_backward(x, cache), dropout_backward(dy, cache)
scale = number(1 / (1 - rate))

graph = Graph("Dropout of *cats*", lanes=2)
graph.node("x", "x", x, dx, at=(0, 0))
graph.node("m", "m", mask.astype(int), at=(1, 1), narrow=(0, 1))
graph.node(
    "y",
    "y",
    y,
    dy,
    at=(2, 0),
    narrow=(1, 0),
    of="x m",
    by=lambda x, m: m * x / (1 - rate),
)
graph.edge("x", "y", label=scale)

graph.step(f"Forward. The row of *cats*, x = {row(x)}.", "x")
graph.step("The coin falls: 1 keeps, 0 drops.", "m")
graph.step(f"What is kept is multiplied by 1 / (1 − p) = {scale}: y = {row(y)}.", "y")
graph.step(f"Backward. The cotangent is ȳ = {row(dy)}.", "y'")
graph.step(
    f"The same mask and the same factor: x̄ = {row(dx)}. The entry that was dropped gets "
    f"{number(dx[1])}, though its output was told {number(dy[1])}.",
    "x'",
)
