"""All-reduce over two ranks, forward and backward: the same operation both times."""

import numpy as np
from graphs import Graph, row

from transformer_core.distributed import on_threads

pieces = [np.array([1.0, 2, 5]), np.array([3.0, -1, 0])]
cotangents = [np.array([2.0, 0, 1]), np.array([-1.0, 4, 1])]


def all_reduced(arrays):
    return on_threads(2, lambda ranks: ranks.all_reduce(arrays[ranks.rank]))


sums, back = all_reduced(pieces), all_reduced(cotangents)

graph = Graph("All-reduce over two ranks", lanes=2)
for r, name in enumerate("₀₁"):
    graph.node(f"x{r}", f"x{name}", pieces[r], back[r], at=(0, r), back=f"x̄{name}")
graph.node(
    "s", "s", sums[0], sum(cotangents), at=(1, 0.5), of="x0 x1", by=lambda *x: sum(x)
)
for r, name in enumerate("₀₁"):
    graph.node(
        f"y{r}",
        f"y{name}",
        sums[r],
        cotangents[r],
        at=(2, r),
        of="s",
        by=lambda s: s,
        back=f"ȳ{name}",
    )

graph.step("Forward. Each rank has numbers of its own.", "x0", "x1")
graph.step(f"Reduce: their sum is {row(sums[0])}.", "s")
graph.step("Broadcast: every rank gets it.", "y0", "y1")
graph.step(
    "Backward. The ranks go on with different work, so their cotangents differ.",
    "y0'",
    "y1'",
)
graph.step(
    f"The sum went to both: its cotangent is the sum of theirs, {row(back[0])}.", "s'"
)
graph.step(
    "Each rank's numbers entered the sum with a factor of 1, and get that same cotangent: the "
    "way back is an all-reduce again.",
    "x0'",
    "x1'",
)
