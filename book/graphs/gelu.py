"""GELU of the hidden units of *cats*: x goes into the product and into the probability."""

import numpy as np
from graphs import Graph, row
from scipy.special import ndtr

from transformer_core.ops import gelu, gelu_backward

x = np.array([3.0, -1])
dy = np.array([4.0, -1])
y, cache = gelu(x)
dx = gelu_backward(dy, cache)
probability = cache.probability
density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
dprobability = dy * x

graph = Graph("GELU of two hidden units", digits=3)
graph.node("x_gelu x", x, dx)
graph.node("phi Φ", probability, dprobability, of="x_gelu", by=ndtr)
graph.node("y_gelu y", y, dy, of="x_gelu phi", by=lambda x, phi: x * phi)
graph.way("x_gelu<y_gelu", "ȳ ⊙ Φ", dy * probability)
graph.way("x_gelu<phi", "ȳ ⊙ x ⊙ φ", dprobability * density)
graph.place("x_gelu 0 0, phi 1 1, y_gelu 2 0")
graph.edge("x_gelu", "phi", label="φ")

graph.narrate(f"""
x_gelu: Forward. The two units of *cats*, x = {row(x)}.
phi: The share of a standard normal distribution below x: Φ = {row(probability, 3)}.
y_gelu: y = x ⊙ Φ = {row(y, 3)}. The negative unit is not quite silent.
y_gelu': Backward. The cotangents are ȳ = {row(dy)}.
x_gelu<y_gelu: Through the factor x: ȳ ⊙ Φ = {row(dy * probability, 3)}.
phi' x_gelu<phi: Through the probability, whose slope is the density φ = {row(density, 3)}:
    {row(dprobability * density, 3)}.
x_gelu': Together: x̄ = {row(dx, 3)}. ReLU would return {row(dy * (x > 0))}.
""")
