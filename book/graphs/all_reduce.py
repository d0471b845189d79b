"""All-reduce over two ranks, forward and backward: the same operation both times."""

import numpy as np
from graphs import Graph, row

from transformer_core.ranks import on_threads

pieces = [np.array([1.0, 2, 5]), np.array([3.0, -1, 0])]
cotangents = [np.array([2.0, 0, 1]), np.array([-1.0, 4, 1])]


def all_reduced(arrays):
    return on_threads(2, lambda ranks: ranks.all_reduce(arrays[ranks.rank]))


sums, back = all_reduced(pieces), all_reduced(cotangents)

graph = Graph("All-reduce over two ranks")
for r, name in enumerate("₀₁"):
    graph.node(f"x{r} x{name}", pieces[r], back[r])
graph.node("s", sums[0], sum(cotangents), of="x0 x1", by=lambda *x: sum(x))
for r, name in enumerate("₀₁"):
    graph.node(f"y{r} y{name}", sums[r], cotangents[r], of="s", by=lambda s: s)
graph.place("x0 0 0, x1 0 1, s 1 0.5, y0 2 0, y1 2 1")

graph.narrate(f"""
x0 x1: Forward. Each rank has numbers of its own.
s: Reduce: their sum is {row(sums[0])}.
y0 y1: Broadcast: every rank gets it.
y0' y1': Backward. The ranks compute different things with it, so their cotangents differ.
s': The sum went to both: its cotangent is the sum of theirs, {row(back[0])}.
x0' x1': Each rank's numbers entered the sum with a factor of 1, and get that same cotangent: the
    backward pass is an all-reduce again.
""")
