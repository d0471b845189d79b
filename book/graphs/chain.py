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
streams, caches = [EMBEDDING[0]], []
for block in blocks:
    y, cache = block.forward(streams[-1])
    streams.append(y)
    caches.append(cache)
dy = np.array([12.0, 0, 0, 0])
gradients, ways = [dy], []
for block, cache in zip(reversed(blocks), reversed(caches), strict=True):
    dz, _ = block.norm.backward(gradients[-1], cache.norm)
    through, _ = block.branch.backward(dz, cache.branch)
    dx, _ = block.backward(gradients[-1], cache)
    gradients.append(dx)
    ways.append((dz, through))
gradients.reverse()
ways.reverse()
norms = [float(np.linalg.norm(g)) for g in gradients]
sums = [x + blocks[k].branch.forward(x)[0] for k, x in enumerate(streams[:2])]
deviation = [float(z.std()) for z in sums]

graph = Graph("Two Post-LN blocks, one after the other", digits=1)
for k in range(3):
    graph.node(
        f"x{k} x{'₀₁₂'[k]}",
        streams[k],
        gradients[k],
        of=f"x{k - 1} f{k - 1}" if k else "",
        by=lambda x, f, k=k: blocks[k - 1].norm.forward(x + f)[0],
    )
    if k < 2:
        f, _ = blocks[k].branch.forward(streams[k])
        graph.node(
            f"f{k} f{'₀₁'[k]}",
            f,
            ways[k][0],
            of=f"x{k}",
            by=lambda x, k=k: blocks[k].branch.forward(x)[0],
        )
for k, (dz, through) in enumerate(ways):
    graph.way(f"x{k}<x{k + 1}", "skip", dz)
    graph.way(f"x{k}<f{k}", "branch", through)
graph.place(
    "x0 0 0, f0 0 1, x1 1 0, f1 1 1, x2 2 0", narrow="x0 0 0.5, f0 1 1, x1 2 0.5, f1 3 1, x2 4 0.5"
)
graph.edge("x0", "x1", label="LN", narrow=-0.15)
graph.edge("x1", "x2", label="LN", narrow=-0.15)

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
