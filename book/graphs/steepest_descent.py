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

graph = Graph("One gradient, three steepest directions")
graph.node("G", g)
for n, (key, (name, by)) in enumerate(directions.items()):
    d = by(g)
    graph.node(f"D{key} {name}", d, of="G", by=by)
    graph.node(f"win{key} ⟨G, D⟩", np.sum(g * d), of=f"G D{key}", by=lambda g, d: np.sum(g * d))
    del graph.edges["G", f"win{key}"]
    if n:
        graph.edge("G", f"D{key}", narrow=-0.47)
graph.place(
    "G 0 1, DF 1 0, winF 2 0, Dmax 1 1, winmax 2 1, D2 1 2, win2 2 2",
    narrow="G 0 0.35, DF 1 0.35, winF 1 1.25, Dmax 2 0.35, winmax 2 1.25, D2 3 0.35, win2 3 1.25",
)
wins = {key: graph.nodes[f"win{key}"].value for key in directions}

graph.narrate(f"""
G: The gradient of a weight matrix.
DF winF: Length as the root of all squares: the direction of the gradient itself lowers the
    loss, to first order, by {number(wins["F"])}.
Dmax winmax: Length as the largest entry: every entry moves, which lowers it by
    {number(wins["max"])}.
D2 win2: Length as the largest change of an output: all singular values become 1. It lowers the
    loss by {number(wins["2"])}, and moves an entry whose gradient is {number(g[0, 1])}.
""")
