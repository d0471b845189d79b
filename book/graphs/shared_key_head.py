"""A head of keys that two ranks share, at *chase*: each rank has a term of both gradients."""

import numpy as np
from graphs import Graph, number, row

from book.sentence import EMBEDDING
from transformer_core.ops import linear, linear_backward

x = EMBEDDING[1]
weight = np.array([[1.0, 0], [0, 1], [0, 1], [1, 0]])
queries = np.array([[3.0, 0], [1, -2]])  # of the heads of rank 0 and rank 1
dscores = np.array([1.0, -1])

key, cache = linear(x, weight)
dkeys = dscores[:, np.newaxis] * queries
dxs, dweights, _ = zip(*(linear_backward(dkey, cache) for dkey in dkeys), strict=True)
total = dweights[0] + dweights[1]

graph = Graph("A head of keys that two ranks share, at *chase*")
graph.node("x", x, dxs[0] + dxs[1])
graph.node("W", weight, total, hue="key")
for r, (name, query) in enumerate(zip("⁰¹", queries, strict=True)):
    graph.node(f"k{r} k{name}", key, dkeys[r], of="x W", by=lambda x, w: x @ w, hue="key")
    graph.way(f"x<k{r}", f"rank {r}", dxs[r])
    graph.way(f"W<k{r}", f"rank {r}", dweights[r])
    graph.node(f"s{r} s{name}", key @ query, dscores[r], of=f"k{r}", by=lambda k, q=query: k @ q)
graph.place("x 0 0, W 0 1, k0 1 0, k1 1 1, s0 2 0, s1 2 1")

graph.narrate(f"""
x W: Forward. Both ranks have *chase*, x = {row(x)}, and a copy of the weights of one head of keys.
k0 k1: So both have the same key, {row(key)}.
s0 s1: Each rank has a head of queries of its own, and its score: {number(key @ queries[0])} and
    {number(key @ queries[1])}.
s0' s1': Backward. The scores have the cotangents {number(dscores[0])} and {number(dscores[1])}.
k0' k1': Each rank finds its query times that: {row(dkeys[0])} and {row(dkeys[1])}. The copies
    of the key are the same; their cotangents are not.
W<k0 W<k1: Each rank has a term for the weights, x times the cotangent of its key.
W': The ranks that share the head add their terms: {row(total)}.
x<k0 x<k1: Each rank has a term for the input, too: {row(dxs[0])} and {row(dxs[1])}.
x': f adds them over all ranks: x̄ = {row(dxs[0] + dxs[1])}.
""")
