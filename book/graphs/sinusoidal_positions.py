"""Sinusoidal positions under *cats chase mice*: a table to which nothing comes back."""

import numpy as np
from graphs import Graph, row

from book.sentence import EMBEDDING, TOKENS
from transformer_core.layers import SinusoidalPositions
from transformer_core.ops import embedding

x, _ = embedding(np.array([[0, 1, 2]]), EMBEDDING)
layer = SinusoidalPositions(3, 4, np.float64)
dy = np.array([[[1.0, 0, 2, -1], [0, 3, 1, 0], [2, 1, 0, 1]]])
y, cache = layer.forward(x)
dx, _ = layer.backward(dy, cache)
x, y, dx, dy = x[0], y[0], dx[0], dy[0]

graph = Graph("Sinusoidal positions under *cats chase mice*")
graph.node("X", x, dx, rows=TOKENS)
graph.node("P", layer.table, exact=False)
graph.node("Y", y, dy, of="X P", by=np.add, exact=False)
graph.place("X 0 0, P 0 1, Y 1 0.5", narrow="P 1 1, Y 2 0.5")
graph.edge("X", "Y", narrow=0)

graph.narrate(f"""
X: Forward. Three words, one row each.
P: The places 0, 1 and 2: sine and cosine of a fast wave, then of one a hundred times as slow.
Y: Word and place are added. *chase* becomes {row(y[1], exact=False)}.
Y': Backward. Each word has a cotangent.
X': A sum passes it on to the word unchanged: X̄ = Ȳ. The table is a constant and gets no
    gradient.
""")
