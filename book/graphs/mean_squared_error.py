"""The mean squared error of a normalised row that should be the embedding of *cats*."""

import numpy as np
from graphs import Graph, number, row

from transformer_core.ops import (
    layer_norm,
    mean_squared_error,
    mean_squared_error_backward,
)
from transformer_core.sentence import EMBEDDING

target = EMBEDDING[0]
y = layer_norm(target, np.ones(4), np.zeros(4), eps=1e-300)[0]
loss, cache = mean_squared_error(y, target)
dy = mean_squared_error_backward(1.0, cache)
error = cache.error

graph = Graph("The mean squared error of one row", lanes=2)
graph.node("y", "y", y, dy, at=(0, 0))
graph.node("target", "y*", target.astype(int), at=(0, 1))
graph.node(
    "error", "e", error, dy, at=(1, 0.5), of="y target", by=lambda y, target: y - target
)
graph.node("loss", "ℒ", loss, 1.0, at=(2, 0.5), of="error", by=lambda e: (e * e).mean())
graph.edge("error", "loss", label=f"e / {number(error.size / 2)}")

graph.step(f"Forward. A model that ends in a LayerNorm gives y = {row(y)}.", "y")
graph.step(f"The row of *cats* was wanted: y* = {row(target)}.", "target")
graph.step(f"The errors are e = y − y* = {row(error)}.", "error")
graph.step(f"The mean of their squares is ℒ = {number(loss)}.", "loss")
graph.step("Backward. The loss is the end: its cotangent is 1.", "loss'")
graph.step(f"ē = 2 e / {error.size} = {row(dy)}.", "error'")
graph.step(f"The target is given, and y takes it all: ȳ = {row(dy)}.", "y'")
