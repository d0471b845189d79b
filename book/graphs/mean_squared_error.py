"""The mean squared error of a normalised row that should be the embedding of *cats*."""

import numpy as np
from graphs import Graph, number, row

from book.sentence import EMBEDDING
from transformer_core.ops import layer_norm, mean_squared_error, mean_squared_error_backward

target = EMBEDDING[0]
y = layer_norm(target, np.ones(4), np.zeros(4), eps=1e-300)[0]
loss, cache = mean_squared_error(y, target)
dy = mean_squared_error_backward(1.0, cache)
error = cache.error

graph = Graph("The mean squared error of one row")
graph.node("y", y, dy)
graph.node("target y*", target.astype(int))
graph.node("error e", error, dy, of="y target", by=lambda y, target: y - target)
graph.node("loss ℒ", loss, 1.0, of="error", by=lambda e: (e * e).mean())
graph.place("y 0 0, target 0 1, error 1 0.5, loss 2 0.5")
graph.edge("error", "loss", label=f"e / {number(error.size / 2)}")

graph.narrate(f"""
y: Forward. A model that ends in a LayerNorm gives y = {row(y)}.
target: The target is the row of *cats*: y* = {row(target)}.
error: The errors are e = y − y* = {row(error)}.
loss: The mean of their squares is ℒ = {number(loss)}.
loss': Backward. The loss is the end: its cotangent is 1.
error': ē = 2 e / {error.size} = {row(dy)}.
y': The target is given, so the whole gradient goes to y: ȳ = {row(dy)}.
""")
