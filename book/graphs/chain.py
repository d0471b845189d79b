"""Two Post-LN blocks in a chain, with random branches, on *cats*."""

import numpy as np
from graphs import Graph, Way

from transformer_core.layers import FeedForward, LayerNorm
from transformer_core.layers.residual import Residual
from transformer_core.sentence import EMBEDDING

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
gradients, ways, between = [dy], [], []
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

graph = Graph("Two Post-LN blocks, one after the other", lanes=2)
for k in range(3):
    of = f"x{k - 1} f{k - 1}" if k else ""
    back = (
        ()
        if k == 2
        else (Way(f"x{k + 1}", "skip", ways[k][0]), Way(f"f{k}", "branch", ways[k][1]))
    )
    graph.node(
        f"x{k}",
        f"x{'₀₁₂'[k]}",
        streams[k],
        gradients[k],
        at=(k, 0),
        narrow=(2 * k, 0.5),
        digits=1,
        of=of,
        ways=back,
        by=lambda x, f, k=k: blocks[k - 1].norm.forward(x + f)[0],
    )
    if k < 2:
        f, _ = blocks[k].branch.forward(streams[k])
        graph.node(
            f"f{k}",
            f"f{'₀₁'[k]}",
            f,
            ways[k][0],
            at=(k, 1),
            narrow=(2 * k + 1, 1),
            digits=1,
            of=f"x{k}",
            by=lambda x, k=k: blocks[k].branch.forward(x)[0],
        )
        if k:
            graph.edge(f"x{k - 1}", f"x{k}", narrow=-0.15)
graph.edge("x0", "x1", label="LN", narrow=-0.15)
graph.edge("x1", "x2", label="LN", narrow=-0.15)

graph.step("Forward. The row of *cats* enters the chain.", "x0")
graph.step(
    "A random branch adds little to it, and LayerNorm divides the sum by its standard deviation.",
    "f0",
    "x1",
)
graph.step("The next block does the same with what it is given.", "f1", "x2")
graph.step(f"Backward. A cotangent of length {norms[2]:.1f} enters at the end.", "x2'")
graph.step(
    "The second block returns it in two ways, along the skip and through the branch.",
    "f1'",
    "x1<x2",
    "x1<f1",
)
graph.step(f"Their sum has the length {norms[1]:.1f}.", "x1'")
graph.step("The first block does the same with what arrives.", "f0'", "x0<x1", "x0<f0")
graph.step(
    f"At the start the length is {norms[0]:.1f}: the LayerNorm of the first block has divided by "
    f"{deviation[0]:.1f}, that of the second only by {deviation[1]:.1f}.",
    "x0'",
)
