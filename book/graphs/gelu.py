"""GELU of the hidden units of *cats*: x goes into the product and into the probability."""

import numpy as np
from graphs import Graph, Way, row
from scipy.special import ndtr

from transformer_core.ops import gelu, gelu_backward

x = np.array([3.0, -1])
dy = np.array([4.0, -1])
y, cache = gelu(x)
dx = gelu_backward(dy, cache)
probability = cache.probability
density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
dprobability = dy * x

graph = Graph("GELU of two hidden units", lanes=2)
graph.node(
    "x",
    "x",
    x,
    dx,
    at=(0, 0),
    digits=3,
    ways=(
        Way("y", "ȳ ⊙ Φ", dy * probability),
        Way("phi", "ȳ ⊙ x ⊙ φ", dprobability * density),
    ),
)
graph.node("phi", "Φ", probability, dprobability, at=(1, 1), of="x", by=ndtr, digits=3)
graph.node("y", "y", y, dy, at=(2, 0), of="x phi", by=lambda x, phi: x * phi, digits=3)
graph.edge("x", "phi", label="φ")

graph.step(f"Forward. The two units of *cats*, x = {row(x)}.", "x")
graph.step(
    f"How much of a standard normal distribution lies below: Φ = {row(probability, 3)}.",
    "phi",
)
graph.step(f"y = x ⊙ Φ = {row(y, 3)}. The negative unit is not quite silent.", "y")
graph.step(f"Backward. The units are told ȳ = {row(dy)}.", "y'")
graph.step(f"Through the factor x: ȳ ⊙ Φ = {row(dy * probability, 3)}.", "x<y")
graph.step(
    f"Through the probability, whose slope is the density φ = {row(density, 3)}: "
    f"{row(dprobability * density, 3)}.",
    "phi'",
    "x<phi",
)
graph.step(f"Together: x̄ = {row(dx, 3)}. ReLU would return {row(dy * (x > 0))}.", "x'")
