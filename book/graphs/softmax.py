"""Softmax of the scores of *chase*: exponentials, their sum, the weights."""

import numpy as np
from graphs import Graph, number, row

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

graph = Graph("Softmax of the scores of *chase*")
graph.node("x", x, dx)
graph.node("e", e, de, of="x", by=np.exp)
graph.node("Z", total, dtotal, of="e", by=np.sum)
graph.node("a", a, da, of="e Z", by=lambda e, total: e / total)
graph.way("e<a", "directly", directly, says="ā / Z")
graph.way("e<Z", "by the sum", by_sum, says=f"−⟨ā, a⟩ / Z, with ⟨ā, a⟩ = {number(da @ a)}")
graph.place("x 0 0, e 1 0, Z 1 1, a 2 0", narrow="Z 2 1, a 3 0")
graph.edge("x", "e", label="exp")
graph.edge("e", "a", label=f"1/{number(total)}")

graph.narrate(f"""
x: Forward. Three scores, x = {row(x)}.
e: Their exponentials: e = {row(e)}.
Z: The sum of the exponentials: Z = {number(total)}.
a: The weights a = e / Z = {row(a)}. They sum to {number(a.sum())}.
a': Backward. The loss depends only on the weight of *cats*: ā = {row(da)}.
e<a: Directly, ā / Z = {row(directly)}.
Z' e<Z: Through the sum, by which every weight is divided: Z̄ = −⟨ā, e⟩ / Z² = {number(dtotal)}, the
    same for each exponential.
e': Together: ē = {row(de)}.
x': Times the slope of exp, which is e itself: x̄ = {row(dx)}. The three sum to {number(dx.sum())},
    and the loss would fall with more *chase* or more *mice*.
""")
