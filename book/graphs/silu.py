"""SiLU of the two gates of *cats*: x goes into the product and into the logistic function."""

import numpy as np
from graphs import Graph, row

from transformer_core.ops import silu, silu_backward

x = np.array([2.0, -2])
dy = np.array([8.0, -4])
y, cache = silu(x)
dx = silu_backward(dy, cache)
sigmoid = cache.sigmoid
slope = sigmoid * (1 - sigmoid)
dsigmoid = dy * x

graph = Graph("SiLU of two gates", digits=3)
graph.node("x_silu x", x, dx)
graph.node("sigma σ", sigmoid, dsigmoid, of="x_silu", by=lambda x: 1 / (1 + np.exp(-x)))
graph.node("y_silu y", y, dy, of="x_silu sigma", by=lambda x, sigma: x * sigma)
graph.way("x_silu<y_silu", "ȳ ⊙ σ", dy * sigmoid)
graph.way("x_silu<sigma", "ȳ ⊙ x ⊙ σ′", dsigmoid * slope)
graph.place("x_silu 0 0, sigma 1 1, y_silu 2 0")
graph.edge("x_silu", "sigma", label="σ′")

graph.narrate(f"""
x_silu: Forward. The two gates of *cats* before the activation, x = {row(x)}.
sigma: The logistic function of both: σ = {row(sigmoid, 3)}. They sum to 1, as the inputs are
    mirrored.
y_silu: y = x ⊙ σ = {row(y, 3)}. The negative gate is nearly shut.
y_silu': Backward. The cotangents are ȳ = {row(dy)}.
x_silu<y_silu: Through the factor x: ȳ ⊙ σ = {row(dy * sigmoid, 3)}.
sigma' x_silu<sigma: Through the logistic function, whose slope is σ(1 − σ) = {row(slope, 3)}:
    {row(dsigmoid * slope, 3)}.
x_silu': Together: x̄ = {row(dx, 3)}. ReLU would return {row(dy * (x > 0))}.
""")
