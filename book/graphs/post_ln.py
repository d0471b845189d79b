"""A Post-LN block on *cats*: LayerNorm after the sum, and the two ways back."""

import numpy as np
from graphs import Graph, row

from book.sentence import EMBEDDING
from transformer_core.ops import layer_norm, layer_norm_backward

x = EMBEDDING[0]
dy = np.array([12.0, 0, 0, 0])
norm = np.ones(4), np.zeros(4), 1e-300
reads = np.array([0.0, 0, 0, 1])
writes = np.array([1.0, -1, 0, 0]) / 2


def branch(x):
    return (x @ reads) * writes


z = x + branch(x)
y, cache = layer_norm(z, *norm)
dz, _, _ = layer_norm_backward(dy, cache)
through = (dz @ writes) * reads

graph = Graph("A Post-LN block on *cats*")
graph.node("x", x, dz + through)
graph.node("f", branch(x), dz, of="x", by=branch)
graph.node("z", z, dz, of="x f", by=np.add)
graph.node("y", y, dy, of="z", by=lambda z: layer_norm(z, *norm)[0])
graph.way("x<z", "skip", dz)
graph.way("x<f", "branch", through)
graph.place("x 0 0, f 0 1, z 1 0, y 2 0", narrow="x 0 0.5, f 1 1, z 2 0.5, y 3 0.5")
graph.edge("z", "y", label="LN")
graph.edge("x", "z", label="skip", narrow=-0.15)

graph.narrate(f"""
x: Forward. *cats*, x = {row(x)}.
f: The branch reads the last entry and makes {row(branch(x))}.
z: x is added to it: z = {row(z)}.
y: LayerNorm comes after the sum: y = {row(y)}.
y': Backward. The loss reads the first entry of y: ȳ = {row(dy)}.
z': Both paths go through LayerNorm: z̄ = {row(dz)}.
x<z: Along the skip connection z̄ arrives as it is.
f' x<f: The branch gets z̄ as well, and returns {row(through)}.
x': The sum is x̄ = {row(dz + through)}.
""")
