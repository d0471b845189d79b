"""Sinusoidal positions under *cats chase mice*: a table to which nothing comes back."""

import numpy as np
from graphs import Graph, row

from transformer_core.layers import SinusoidalPositions
from transformer_core.ops import embedding
from transformer_core.sentence import EMBEDDING, TOKENS

x, _ = embedding(np.array([[0, 1, 2]]), EMBEDDING)
layer = SinusoidalPositions(3, 4, np.float64)
dy = np.array([[[1.0, 0, 2, -1], [0, 3, 1, 0], [2, 1, 0, 1]]])
y, cache = layer.forward(x)
dx, _ = layer.backward(dy, cache)
x, y, dx, dy = x[0], y[0], dx[0], dy[0]

graph = Graph("Sinusoidal positions under *cats chase mice*", lanes=2)
graph.node("X", "X", x, dx, at=(0, 0), narrow=(0, 0), rows=TOKENS)
graph.node("P", "P", layer.table, at=(0, 1), narrow=(1, 1), exact=False)
graph.node(
    "Y", "Y", y, dy, at=(1, 0.5), narrow=(2, 0.5), of="X P", by=np.add, exact=False
)
graph.edge("X", "Y", narrow=0)

graph.step("Forward. Three words, one row each.", "X")
graph.step(
    "The places 0, 1 and 2: sine and cosine of a fast wave, then of one a hundred times as slow.",
    "P",
)
graph.step(f"Word and place are added. *chase* becomes {row(y[1], exact=False)}.", "Y")
graph.step("Backward. Each word hands over its cotangent.", "Y'")
graph.step(
    "A sum passes it on to the word as it is: X̄ = Ȳ. The table is a constant, and nothing comes "
    "back to it.",
    "X'",
)
