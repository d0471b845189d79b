"""Two Post-LN blocks in a chain, with random branches, on *cats*."""

import numpy as np
from graphs import Graph

from book.sentence import EMBEDDING
from transformer_core.layers import FeedForward, LayerNorm
from transformer_core.layers.residual import Residual

rng = np.random.default_rng(0)
blocks = [
    Residual(FeedForward(4, 16, rng, dtype="float64"), LayerNorm(4, "float64"), "post")
    for _ in range(2)
]
branches = [lambda x, block=block: block.branch.forward(x)[0] for block in blocks]
streams, caches = [EMBEDDING[0]], []
for block in blocks:
    y, cache = block.forward(streams[-1])
    streams.append(y)
    caches.append(cache)
gradients, ways = [np.array([12.0, 0, 0, 0])], []
for block, cache in zip(reversed(blocks), reversed(caches), strict=True):
    dz, _ = block.norm.backward(gradients[0], cache.norm)
    through, _ = block.branch.backward(dz, cache.branch)
    dx, _ = block.backward(gradients[0], cache)
    gradients.insert(0, dx)
    ways.insert(0, (dz, through))
norms = [float(np.linalg.norm(g)) for g in gradients]
deviation = [float((x + f(x)).std()) for x, f in zip(streams[:2], branches, strict=True)]

graph = Graph("Two Post-LN blocks, one after the other", digits=1)
graph.node("x0 x₀", streams[0], gradients[0])
for k, (dz, through) in enumerate(ways):
    f, norm = branches[k], blocks[k].norm
    x, after = f"x{k}", f"x{k + 1}"
    graph.node(f"f{k} f{'₀₁'[k]}", f(streams[k]), dz, of=x, by=f)
    graph.node(
        f"{after} x{'₁₂'[k]}",
        streams[k + 1],
        gradients[k + 1],
        of=f"{x} f{k}",
        by=lambda x, f, norm=norm: norm.forward(x + f)[0],
    )
    graph.way(f"{x}<{after}", "skip", dz)
    graph.way(f"{x}<f{k}", "branch", through)
    graph.edge(x, after, label="LN", narrow=-0.15)
graph.place(
    "x0 0 0, f0 0 1, x1 1 0, f1 1 1, x2 2 0", narrow="x0 0 0.5, f0 1 1, x1 2 0.5, f1 3 1, x2 4 0.5"
)

graph.narrate(f"""
x0: Forward. The row of *cats* enters the chain.
f0 x1: A random branch adds little to it, and LayerNorm divides the sum by its standard deviation.
f1 x2: The next block does the same with what it is given.
x2': Backward. A cotangent of length {norms[2]:.1f} enters at the end.
f1' x1<x2 x1<f1: The second block returns it along two paths: along the skip and through the branch.
x1': Their sum has the length {norms[1]:.1f}.
f0' x0<x1 x0<f0: The first block does the same with its cotangent.
x0': At the start the length is {norms[0]:.1f}: the LayerNorm of the first block has divided by
    {deviation[0]:.1f}, that of the second only by {deviation[1]:.1f}.
""")
