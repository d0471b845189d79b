"""Clipping two arrays by their common norm."""

import numpy as np
from graphs import Graph, number

from transformer_core.optim.clipping import clip_by_global_norm, clipping_factor

most = 1.0
grads = {"g": np.array([24.0]), "k": np.array([7.0])}
clipped, norm = clip_by_global_norm(grads, most)
factor = clipping_factor(norm, most)

graph = Graph("Clipping two arrays together")
graph.node("g0 g₀", grads["g"])
graph.node("g1 g₁", grads["k"])
graph.node("norm ‖g‖", norm, of="g0 g1", by=lambda *g: np.sqrt(sum(a[0] ** 2 for a in g)))
graph.node("factor", factor, of="norm", by=lambda norm: most / max(norm, most))
for n, name in enumerate("gk"):
    graph.node(f"y{n} clipped g{'₀₁'[n]}", clipped[name], of=f"g{n} factor", by=np.multiply)
    graph.edge(f"g{n}", f"y{n}", narrow=1.4 * n - 0.2)
graph.place(
    "g0 0 0, g1 0 2, norm 1 1, factor 2 1, y0 3 0, y1 3 2",
    narrow="g1 0 1, norm 1 0.5, factor 2 0.5, y1 3 1",
)

graph.narrate(f"""
g0 g1: Two arrays of one number each have their gradients.
norm: Their common norm is √({number(24.0**2)} + {number(7.0**2)}) = {number(norm)}.
factor: Longer than {number(most)}, so the factor is {number(factor)}.
y0 y1: Both are multiplied by it: {number(clipped["g"][0])} and {number(clipped["k"][0])}. The
    direction stays.
""")
