"""The mean of *cats* and *chase*, while *mice* stands for padding."""

import numpy as np
from graphs import Graph, row

from book.sentence import EMBEDDING, TOKENS
from transformer_core.ops import mean_pool, mean_pool_backward

keep = np.array([[True, True, False]])
dy = np.array([2.0, 0, -4, 2])
y, cache = mean_pool(EMBEDDING[np.newaxis], keep)
dx = mean_pool_backward(dy[np.newaxis], cache)[0]

graph = Graph("The mean of two rows of three")
graph.node("X_pool X", EMBEDDING, dx, rows=TOKENS)
graph.node("y_pool y", y[0], dy, of="X_pool", by=lambda x: x[:2].mean(axis=0))
graph.place("X_pool 0 0, y_pool 1 0")

graph.narrate(f"""
X_pool: Forward. Three rows, of which the last counts as padding.
y_pool: The mean of the first two: y = {row(y[0])}. Divided by 3 it would be shorter in every batch
    that has a longer sentence.
y_pool': Backward. The cotangent is ȳ = {row(dy)}.
X_pool': Each row that is kept gets half of it, {row(dx[0])}; padding gets 0.
""")
