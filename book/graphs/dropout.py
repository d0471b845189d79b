"""Dropout of the embedding of *cats*, with the mask of the example."""

import numpy as np
from graphs import Graph, number, row

from book.sentence import EMBEDDING
from transformer_core.ops.dropout import DropoutCache, dropout_backward

x = EMBEDDING[0]
rate = 0.5
mask = np.array([True, False, True, True])
dy = np.array([1.0, 2, -1, 1])
cache = DropoutCache(mask, rate)
y, dx = dropout_backward(x, cache), dropout_backward(dy, cache)
scale = number(1 / (1 - rate))

graph = Graph("Dropout of *cats*")
graph.node("x", x, dx)
graph.node("m", mask.astype(int))
graph.node("y", y, dy, of="x m", by=lambda x, m: m * x / (1 - rate))
graph.place("x 0 0, m 1 1, y 2 0", narrow="m 0 1, y 1 0")
graph.edge("x", "y", label=scale)

graph.narrate(f"""
x: Forward. The row of *cats*, x = {row(x)}.
m: The mask is drawn: 1 keeps, 0 drops.
y: What is kept is multiplied by 1 / (1 − p) = {scale}: y = {row(y)}.
y': Backward. The cotangent is ȳ = {row(dy)}.
x': The same mask and the same factor: x̄ = {row(dx)}. The entry that was dropped gets
    {number(dx[1])}, although ȳ is {number(dy[1])} there.
""")
