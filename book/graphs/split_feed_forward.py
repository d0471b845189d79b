"""The feed-forward layer in two pieces, on *chase*: each rank has one of the two units."""

import numpy as np
from graphs import Graph, number, row

from book.sentence import EMBEDDING
from transformer_core.ops import linear, linear_backward, relu, relu_backward

x = EMBEDDING[1]
w1 = np.array([[1.0, -1], [1, 0], [0, 1], [1, 0]])
b1 = np.array([1.0, 1])
w2 = np.array([[1.0, 0, -1, 2], [0, 1, 2, -1]])
b2 = np.array([1.0, 0, 0, -1])
dy = np.array([0.0, 1, 0, -1])


def on_rank(rank):
    """One rank's piece, forward and backward: its values, and the gradients of them."""
    at = slice(rank, rank + 1)
    h, read = linear(x, w1[:, at], b1[at])
    a, bent = relu(h)
    part, wrote = linear(a, w2[at])
    da, *_ = linear_backward(dy, wrote)
    dh = relu_backward(da, bent)
    dx, *_ = linear_backward(dh, read)
    return (h, a, part), (dh, da, dx)


ranks = [on_rank(rank) for rank in range(2)]
parts = [values[2] for values, _ in ranks]
dxs = [gradients[2] for _, gradients in ranks]
y = parts[0] + parts[1] + b2

graph = Graph("The feed-forward layer on *chase*, one unit on each rank")
graph.node("x", x, dxs[0] + dxs[1])
for r, name in enumerate("⁰¹"):
    at, ((h, a, part), (dh, da, dx)) = slice(r, r + 1), ranks[r]
    graph.node(f"h{r} h{name}", h, dh, of="x", by=lambda x, at=at: x @ w1[:, at] + b1[at])
    graph.way(f"x<h{r}", f"rank {r}", dx)
    graph.node(f"a{r} a{name}", a, da, of=f"h{r}", by=lambda h: np.maximum(h, 0))
    graph.node(f"y{r} y{name}", part, dy, of=f"a{r}", by=lambda a, at=at: a @ w2[at])
graph.node("y", y, dy, of="y0 y1", by=lambda a, b: a + b + b2)
graph.place("x 0 0.5, h0 1 0, a0 2 0, y0 3 0, h1 1 1, a1 2 1, y1 3 1, y 4 0.5")

graph.narrate(f"""
x: Forward. Both ranks have *chase*, x = {row(x)}: f passes it on.
h0 h1: Each rank has one unit: h = {number(ranks[0][0][0][0])} on rank 0,
    {number(ranks[1][0][0][0])} on rank 1.
a0 a1: Both are positive, and ReLU lets them pass.
y0 y1: Each rank writes its row of W₂: {row(parts[0])} and {row(parts[1])}.
y: g adds what the ranks wrote, and b₂ = {row(b2)} comes in once: y = {row(y)}.
y': Backward. The cotangent of the output is ȳ = {row(dy)}.
y0' y1': g passes it to both ranks unchanged.
a0' a1': Each unit gets the product of ȳ and its row: {number(ranks[0][1][1][0])} and
    {number(ranks[1][1][1][0])}.
h0' h1': ReLU lets both pass.
x<h0 x<h1: Each rank has a term for the input: {row(dxs[0])} and {row(dxs[1])}.
x': f adds them over the ranks: x̄ = {row(dxs[0] + dxs[1])}.
""")
