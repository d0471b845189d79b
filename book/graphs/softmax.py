"""Softmax of the scores of *chase*: exponentials, their sum, the weights."""

import numpy as np
from graphs import Graph, Way, number, row

from transformer_core.ops import softmax, softmax_backward

x = np.log(2) * np.array([2.0, 0, 1])
da = np.array([7.0, 0, 0])
a, cache = softmax(x)
dx = softmax_backward(da, cache)
e = np.exp(x)
total = e.sum()
dtotal = -(da * e).sum() / total**2
directly, by_sum = da / total, np.full(3, dtotal)
de = directly + by_sum

graph = Graph("Softmax of the scores of *chase*", lanes=2)
graph.node("x", "x", x, dx, at=(0, 0))
graph.node(
    "e",
    "e",
    e,
    de,
    at=(1, 0),
    of="x",
    by=np.exp,
    ways=(Way("a", "directly", directly), Way("Z", "by the sum", by_sum)),
)
graph.node("Z", "Z", total, dtotal, at=(1, 1), of="e", by=np.sum, narrow=(2, 1))
graph.node(
    "a", "a", a, da, at=(2, 0), narrow=(3, 0), of="e Z", by=lambda e, total: e / total
)
graph.edge("x", "e", label="exp")
graph.edge("e", "a", label=f"1/{number(total)}")

graph.step(f"Forward. Three scores, x = {row(x)}.", "x")
graph.step(f"Their exponentials: e = {row(e)}.", "e")
graph.step(f"The sum of the exponentials: Z = {number(total)}.", "Z")
graph.step(f"The weights a = e / Z = {row(a)}. They sum to {number(a.sum())}.", "a")
graph.step(f"Backward. The loss reads the weight of *cats* alone: ā = {row(da)}.", "a'")
graph.step(f"Directly, ā / Z = {row(directly)}.", "e<a")
graph.step(
    f"Through the sum, which every weight is divided by: Z̄ = −⟨ā, e⟩ / Z² = {number(dtotal)}, "
    "the same for each exponential.",
    "Z'",
    "e<Z",
)
graph.step(f"Together: ē = {row(de)}.", "e'")
graph.step(
    f"Times the slope of exp, which is e itself: x̄ = {row(dx)}. The three sum to "
    f"{number(dx.sum())}, and the loss would fall with more *chase* or more *mice*.",
    "x'",
)
