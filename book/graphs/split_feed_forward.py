"""The feed-forward layer in two pieces, on *chase*: each rank has one of the two units."""

import numpy as np
from graphs import Graph, Way, number, row

from transformer_core.ops import linear, linear_backward, relu, relu_backward
from transformer_core.sentence import EMBEDDING

x = EMBEDDING[1]
w1 = np.array([[1.0, -1], [1, 0], [0, 1], [1, 0]])
b1 = np.array([1.0, 1])
w2 = np.array([[1.0, 0, -1, 2], [0, 1, 2, -1]])
b2 = np.array([1.0, 0, 0, -1])
dy = np.array([0.0, 1, 0, -1])
NAMES = "\N{SUPERSCRIPT ZERO}\N{SUPERSCRIPT ONE}"


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

graph = Graph("The feed-forward layer on *chase*, one unit on each rank", lanes=2)
graph.node(
    "x",
    "x",
    x,
    dxs[0] + dxs[1],
    at=(0, 0.5),
    ways=tuple(Way(f"h{r}", f"rank {r}", dxs[r]) for r in range(2)),
)
for r, ((h, a, part), (dh, da, _)) in enumerate(ranks):
    at = slice(r, r + 1)
    graph.node(
        f"h{r}",
        f"h{NAMES[r]}",
        h,
        dh,
        at=(1, r),
        of="x",
        by=lambda x, at=at: x @ w1[:, at] + b1[at],
    )
    graph.node(
        f"a{r}",
        f"a{NAMES[r]}",
        a,
        da,
        at=(2, r),
        of=f"h{r}",
        by=lambda h: np.maximum(h, 0),
    )
    graph.node(
        f"y{r}",
        f"y{NAMES[r]}",
        part,
        dy,
        at=(3, r),
        of=f"a{r}",
        by=lambda a, at=at: a @ w2[at],
    )
graph.node("y", "y", y, dy, at=(4, 0.5), of="y0 y1", by=lambda a, b: a + b + b2)

graph.step(f"Forward. Both ranks have *chase*, x = {row(x)}: f hands it on.", "x")
graph.step(
    f"Each rank has one unit: h = {number(ranks[0][0][0][0])} on rank 0, "
    f"{number(ranks[1][0][0][0])} on rank 1.",
    "h0",
    "h1",
)
graph.step("Both are positive, and ReLU lets them pass.", "a0", "a1")
graph.step(
    f"Each rank writes its row of W₂: {row(parts[0])} and {row(parts[1])}.", "y0", "y1"
)
graph.step(
    f"g adds what the ranks wrote, and b₂ = {row(b2)} comes in once: y = {row(y)}.", "y"
)
graph.step(f"Backward. The cotangent of the output is ȳ = {row(dy)}.", "y'")
graph.step("g hands it to both ranks as it is.", "y0'", "y1'")
graph.step(
    "Each unit is told what its row would win: "
    f"{number(ranks[0][1][1][0])} and {number(ranks[1][1][1][0])}.",
    "a0'",
    "a1'",
)
graph.step("ReLU lets both pass.", "h0'", "h1'")
graph.step(
    f"Each rank has a term for the input: {row(dxs[0])} and {row(dxs[1])}.",
    "x<h0",
    "x<h1",
)
graph.step(f"f adds them over the ranks: x̄ = {row(dxs[0] + dxs[1])}.", "x'")
