"""One gradient, three steepest directions: Euclidean, largest entry, spectral."""

import numpy as np
from graphs import Graph, number

g = np.array([[3.0, 0], [4, 5]])


def spectral(g):
    u, _, v = np.linalg.svd(g)
    return u @ v


directions = {
    "F": ("G / ‖G‖", lambda g: g / np.linalg.norm(g)),
    "max": ("sign G", np.sign),
    "2": ("U Vᵀ", spectral),
}

graph = Graph("One gradient, three steepest directions", lanes=2)
graph.node("G", "G", g, at=(0, 1), narrow=(0, 0.35))
for n, (key, (name, by)) in enumerate(directions.items()):
    d = by(g)
    graph.node(f"D{key}", name, d, at=(1, n), narrow=(n + 1, 0.35), of="G", by=by)
    graph.node(
        f"win{key}",
        "⟨G, D⟩",
        np.sum(g * d),
        at=(2, n),
        narrow=(n + 1, 1.25),
        of=f"G D{key}",
        by=lambda g, d: np.sum(g * d),
    )
    del graph.edges["G", f"win{key}"]
    if n:
        graph.edge("G", f"D{key}", narrow=-0.47)
wins = {key: graph.nodes[f"win{key}"].value for key in directions}

graph.step("The gradient of a weight matrix.", "G")
graph.step(
    "Length as the root of all squares: the direction of the gradient itself wins "
    f"{number(wins['F'])}.",
    "DF",
    "winF",
)
graph.step(
    f"Length as the largest entry: every entry moves, and wins {number(wins['max'])}.",
    "Dmax",
    "winmax",
)
graph.step(
    "Length as the largest change of an output: all singular values become 1. It wins "
    f"{number(wins['2'])}, and moves an entry whose gradient is {number(g[0, 1])}.",
    "D2",
    "win2",
)
