"""The hyperbolic tangent of two numbers, one near 0 and one far from it."""

import numpy as np
from graphs import Graph, row

from transformer_core.ops import tanh, tanh_backward

x = np.array([0.0, 2])
dy = np.array([4.0, 4])
y, cache = tanh(x)
dx = tanh_backward(dy, cache)

graph = Graph("tanh of two numbers", digits=3)
graph.node("x_tanh x", x, dx)
graph.node("y_tanh y", y, dy, of="x_tanh", by=np.tanh)
graph.place("x_tanh 0 0, y_tanh 1 0")
graph.edge("x_tanh", "y_tanh", label="1 − y²")

graph.narrate(f"""
x_tanh: Forward. Two numbers before the activation, x = {row(x)}.
y_tanh: y = tanh x = {row(y, 3)}. The second is nearly 1.
y_tanh': Backward. The cotangents are ȳ = {row(dy)}.
x_tanh': x̄ = ȳ (1 − y²) = {row(dx, 3)}. Where the output is nearly 1, little passes.
""")
