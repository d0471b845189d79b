"""Clipping two arrays by their common norm."""

import numpy as np
from graphs import Graph, number

from transformer_core.optim.clipping import clip_by_global_norm, clipping_factor

most = 1.0
grads = {"g": np.array([24.0]), "k": np.array([7.0])}
clipped, norm = clip_by_global_norm(grads, most)
factor = clipping_factor(norm, most)

graph = Graph("Clipping two arrays together", lanes=2)
graph.node("g0", "g₀", grads["g"], at=(0, 0))
graph.node("g1", "g₁", grads["k"], at=(0, 2), narrow=(0, 1))
graph.node(
    "norm",
    "‖g‖",
    norm,
    at=(1, 1),
    narrow=(1, 0.5),
    of="g0 g1",
    by=lambda *g: np.sqrt(sum(a[0] ** 2 for a in g)),
)
graph.node(
    "factor",
    "factor",
    factor,
    at=(2, 1),
    narrow=(2, 0.5),
    of="norm",
    by=lambda norm: most / max(norm, most),
)
for n, name in enumerate("gk"):
    graph.node(
        f"y{n}",
        f"clipped g{'₀₁'[n]}",
        clipped[name],
        at=(3, 2 * n),
        narrow=(3, n),
        of=f"g{n} factor",
        by=lambda g, factor: g * factor,
    )
    graph.edge(f"g{n}", f"y{n}", narrow=1.4 * n - 0.2)

graph.step("Two arrays of one number each have their gradients.", "g0", "g1")
graph.step(
    f"Their common norm is √({number(24.0**2)} + {number(7.0**2)}) = {number(norm)}.",
    "norm",
)
graph.step(f"Longer than {number(most)}, so the factor is {number(factor)}.", "factor")
graph.step(
    f"Both are multiplied by it: {number(clipped['g'][0])} and {number(clipped['k'][0])}. The "
    "direction stays.",
    "y0",
    "y1",
)
