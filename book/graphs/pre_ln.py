"""A Pre-LN block on *cats*: LayerNorm before the branch, and a skip connection without it."""

import numpy as np
from graphs import Graph, Way, row

from transformer_core.ops import layer_norm, layer_norm_backward
from transformer_core.sentence import EMBEDDING

x = EMBEDDING[0]
dy = np.array([12.0, 0, 0, 0])
ones, zeros = np.ones(4), np.zeros(4)
reads = np.array([0.0, 0, 0, 1])
writes = np.array([1.0, -1, 0, 0]) / 2


def branch(u):
    return (u @ reads) * writes


def normalised(x):
    return layer_norm(x, ones, zeros, eps=1e-300)[0]


u, cache = layer_norm(x, ones, zeros, eps=1e-300)
y = x + branch(u)
du = (dy @ writes) * reads
through, _, _ = layer_norm_backward(du, cache)

graph = Graph("A Pre-LN block on *cats*", lanes=2)
graph.node(
    "x",
    "x",
    x,
    dy + through,
    at=(0, 0),
    narrow=(0, 0.5),
    ways=(Way("y", "skip", dy), Way("u", "branch", through)),
)
graph.node("u", "u", u, du, at=(0, 1), narrow=(1, 1), of="x", by=normalised)
graph.node("f", "f", branch(u), dy, at=(1, 1), narrow=(2, 1), of="u", by=branch)
graph.node("y", "y", y, dy, at=(2, 0), narrow=(3, 0.5), of="x f", by=lambda x, f: x + f)
graph.edge("x", "u", label="LN")
graph.edge("x", "y", label="skip", narrow=-0.15)

graph.step(f"Forward. *cats*, x = {row(x)}.", "x")
graph.step(f"LayerNorm stands before the branch: u = {row(u)}.", "u")
graph.step(f"The branch reads its last entry and makes {row(branch(u))}.", "f")
graph.step(f"x itself goes around both: y = x + f = {row(y)}.", "y")
graph.step(f"Backward. The loss reads the first entry of y: ȳ = {row(dy)}.", "y'")
graph.step("Along the skip connection ȳ arrives undiminished.", "x<y")
graph.step(f"The branch is handed ȳ as well, and returns ū = {row(du)}.", "f'", "u'")
graph.step(f"LayerNorm makes {row(through)} of it.", "x<u")
graph.step(
    f"The sum is x̄ = {row(dy + through)}: nearly all of it came along the skip.", "x'"
)
