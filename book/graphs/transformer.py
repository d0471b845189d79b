"""One Post-LN layer of an encoder on *cats chase mice*: the package's, with initial weights."""

import numpy as np
from graphs import Graph

from book.sentence import EMBEDDING, TOKENS
from transformer_core.layers import EncoderLayer, LayerSpec

layer = EncoderLayer(LayerSpec(4, 2, 16, "post", dtype="float64"), np.random.default_rng(0))
x = EMBEDDING
dy = np.array([[0.0, 0, 0, 0], [12, 0, 0, -12], [0, 0, 0, 0]])
blocks = {"attention": layer.attention, "feed_forward": layer.feed_forward}


def branch(block):
    context = (None,) if block is layer.attention else ()
    return lambda x: block.branch.forward(x[np.newaxis], *context)[0][0]


def add_and_normalise(block):
    return lambda x, f: block.norm.forward(x + f)[0]


_, caches = layer.forward(x[np.newaxis])
rows = {"X": x}
for stream, source, (_, block) in zip("ZY", "XZ", blocks.items(), strict=True):
    rows[f"f{stream}"] = branch(block)(rows[source])
    rows[stream] = add_and_normalise(block)(rows[source], rows[f"f{stream}"])
back, paths = {"Y": dy}, {}
for stream, source, name in (("Y", "Z", "feed_forward"), ("Z", "X", "attention")):
    cache = getattr(caches, name)
    d, _ = blocks[name].norm.backward(back[stream][np.newaxis], cache.norm)
    through, _ = blocks[name].branch.backward(d, cache.branch)
    back[f"f{stream}"], paths[source] = d[0], through[0]
    back[source] = d[0] + through[0]
dx, _ = layer.backward(dy[np.newaxis], caches)
assert np.allclose(dx[0], back["X"])
reached = [int(np.abs(back[name]).max(axis=1).astype(bool).sum()) for name in "ZX"]

graph = Graph("One layer of an encoder on *cats chase mice*", digits=1)
graph.node("X", x, back["X"], rows=TOKENS)
for rank, (stream, source, block) in enumerate(
    (("Z", "X", layer.attention), ("Y", "Z", layer.feed_forward))
):
    graph.node(
        f"f{stream} f{'₁₂'[rank]}",
        rows[f"f{stream}"],
        back[f"f{stream}"],
        of=source,
        by=branch(block),
    )
    graph.node(
        stream, rows[stream], back[stream], of=f"{source} f{stream}", by=add_and_normalise(block)
    )
    graph.edge(source, stream, label="skip", narrow=-0.3)
graph.place(
    "X 0 0, fZ 0 1, Z 1 0, fY 1 1, Y 2 0", narrow="X 0 0.5, fZ 1 1, Z 2 0.5, fY 3 1, Y 4 0.5"
)
graph.edge("X", "fZ", label="attention")
graph.edge("Z", "fY", label="feed-forward")

graph.narrate(f"""
X: Forward. Three words, one row each, before any training.
fZ: Attention: every row averages values of every row.
Z: Its output is added to X, and each row is normalised.
fY: Feed-forward: each row by itself.
Y: Added and normalised again. These rows go into the next layer.
Y': Backward. Suppose the loss depends only on the row of *chase*.
fY': LayerNorm passes its cotangent to both summands, the branch and the skip connection.
Z': The two paths add up. So far {reached[0]} of 3 rows has a gradient.
fZ': The same in the block of the attention.
X': Attention passes it on to all words: now {reached[1]} of 3 rows have a gradient.
""")
