"""A Pre-LN block on *cats*: LayerNorm before the branch, and a skip connection without it."""

import numpy as np
from graphs import Graph, row

from book.sentence import EMBEDDING
from transformer_core.ops import layer_norm, layer_norm_backward

x = EMBEDDING[0]
dy = np.array([12.0, 0, 0, 0])
norm = np.ones(4), np.zeros(4), 1e-300
reads = np.array([0.0, 0, 0, 1])
writes = np.array([1.0, -1, 0, 0]) / 2


def branch(u):
    return (u @ reads) * writes


u, cache = layer_norm(x, *norm)
y = x + branch(u)
du = (dy @ writes) * reads
through, _, _ = layer_norm_backward(du, cache)

graph = Graph("A Pre-LN block on *cats*")
graph.node("x_pre x", x, dy + through)
graph.node("u", u, du, of="x_pre", by=lambda x: layer_norm(x, *norm)[0])
graph.node("f_pre f", branch(u), dy, of="u", by=branch)
graph.node("y_pre y", y, dy, of="x_pre f_pre", by=np.add)
graph.way("x_pre<y_pre", "skip", dy)
graph.way("x_pre<u", "branch", through)
graph.place(
    "x_pre 0 0, u 0 1, f_pre 1 1, y_pre 2 0", narrow="x_pre 0 0.5, u 1 1, f_pre 2 1, y_pre 3 0.5"
)
graph.edge("x_pre", "u", label="LN")
graph.edge("x_pre", "y_pre", label="skip", narrow=-0.15)

graph.narrate(f"""
x_pre: Forward. *cats*, x = {row(x)}.
u: LayerNorm comes before the branch: u = {row(u)}.
f_pre: The branch reads its last entry and makes {row(branch(u))}.
y_pre: x itself is added: y = x + f = {row(y)}.
y_pre': Backward. The loss reads the first entry of y: ȳ = {row(dy)}.
x_pre<y_pre: Along the skip connection ȳ arrives unchanged.
f_pre' u': The branch gets ȳ as well, and returns ū = {row(du)}.
x_pre<u: LayerNorm makes {row(through)} of it.
x_pre': The sum is x̄ = {row(dy + through)}: nearly all of it came along the skip.
""")
