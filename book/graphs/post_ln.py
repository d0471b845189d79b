"""A Post-LN block on *cats*: LayerNorm after the sum, and the two ways back."""

import numpy as np
from graphs import Graph, Way, row

from transformer_core.ops import layer_norm, layer_norm_backward
from transformer_core.sentence import EMBEDDING

x = EMBEDDING[0]
dy = np.array([12.0, 0, 0, 0])
ones, zeros = np.ones(4), np.zeros(4)
reads = np.array([0.0, 0, 0, 1])
writes = np.array([1.0, -1, 0, 0]) / 2


def branch(x):
    return (x @ reads) * writes


def normalised(z):
    return layer_norm(z, ones, zeros, eps=1e-300)[0]


z = x + branch(x)
y, cache = layer_norm(z, ones, zeros, eps=1e-300)
dz, _, _ = layer_norm_backward(dy, cache)
through = (dz @ writes) * reads

graph = Graph("A Post-LN block on *cats*", lanes=2)
graph.node(
    "x",
    "x",
    x,
    dz + through,
    at=(0, 0),
    narrow=(0, 0.5),
    ways=(Way("z", "skip", dz), Way("f", "branch", through)),
)
graph.node("f", "f", branch(x), dz, at=(0, 1), narrow=(1, 1), of="x", by=branch)
graph.node("z", "z", z, dz, at=(1, 0), narrow=(2, 0.5), of="x f", by=lambda x, f: x + f)
graph.node("y", "y", y, dy, at=(2, 0), narrow=(3, 0.5), of="z", by=normalised)
graph.edge("z", "y", label="LN")
graph.edge("x", "z", label="skip", narrow=-0.15)

graph.step(f"Forward. *cats*, x = {row(x)}.", "x")
graph.step(f"The branch reads the last entry and makes {row(branch(x))}.", "f")
graph.step(f"x goes around it too, and is added: z = {row(z)}.", "z")
graph.step(f"LayerNorm comes after the sum: y = {row(y)}.", "y")
graph.step(f"Backward. The loss reads the first entry of y: ȳ = {row(dy)}.", "y'")
graph.step(f"Both ways go through LayerNorm: z̄ = {row(dz)}.", "z'")
graph.step("Along the skip connection z̄ arrives as it is.", "x<z")
graph.step(f"The branch is handed z̄ as well, and returns {row(through)}.", "f'", "x<f")
graph.step(f"The sum is x̄ = {row(dz + through)}.", "x'")
