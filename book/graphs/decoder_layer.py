"""A Pre-LN layer of a decoder, with random weights: two rows attend to a source of three."""

import numpy as np
from graphs import Graph

from book.sentence import EMBEDDING, TOKENS
from transformer_core.layers import DecoderLayer, LayerSpec
from transformer_core.ops import causal_keep, layer_norm

layer = DecoderLayer(LayerSpec(4, 2, 16, "pre", dtype="float64"), np.random.default_rng(5))
for parameter in layer.parameters().values():
    parameter *= 1 + (parameter.ndim == 2)
keep = causal_keep(2)
g0 = EMBEDDING[:2]
z, _ = layer_norm(EMBEDDING, np.ones(4), np.zeros(4), eps=1e-300)
dy = np.array([[0.0, 0, 0, 0], [4, 0, 0, -4]])


def block(residual, *context):
    return lambda x: residual.forward(x[np.newaxis], *context)[0][0]


def ask(x, source):
    queries, _ = layer.cross_attention.norm.forward(x[np.newaxis])
    return layer.cross_attention.branch.forward(queries, source[np.newaxis])[0][0]


look_back, feed_forward = block(layer.self_attention, keep), block(layer.feed_forward)
y, caches = layer.forward(g0[np.newaxis], z[np.newaxis], keep)
g1 = look_back(g0)
f = ask(g1, z)
g2 = g1 + f
dg2, _ = layer.feed_forward.backward(dy[np.newaxis], caches.feed_forward)
dg1, _, _ = layer.cross_attention.backward(dg2, caches.cross_attention)
dg0, dz, _ = layer.backward(dy[np.newaxis], caches)
y, dg2, dg1, dg0, dz = y[0], dg2[0], dg1[0], dg0[0], dz[0]

graph = Graph("One layer of a decoder, and its source", digits=1)
graph.node("G0 G₀", g0, dg0, rows=TOKENS[:2])
graph.node("G1 G′", g1, dg1, of="G0", by=look_back)
graph.node("Z", z, dz, rows=TOKENS)
graph.node("f", f, dg2, of="G1 Z", by=ask)
graph.node("G2 G″", g2, dg2, of="G1 f", by=np.add)
graph.node("G3 G₁", y, dy, of="G2", by=feed_forward)
graph.way("G1<G2", "skip", dg2)
graph.way("G1<f", "queries", dg1 - dg2)
graph.place(
    "G0 0 1, G1 0 0, Z 1 2, f 1 1, G2 2 0, G3 2 1",
    narrow="G0 0 0, G1 1 0, Z 2 0.9, f 3 0.9, G2 4 0, G3 5 0",
)
graph.edge("G0", "G1", label="self-attention")
graph.edge("G1", "f", narrow=-0.15)
graph.edge("G1", "G2", narrow=-0.4)
graph.edge("Z", "f", label="keys, values")
graph.edge("G2", "G3", label="FFN")

graph.narrate("""
G0: Forward. The decoder has two rows, and the third word is to be predicted.
G1: The block of the self-attention, under the causal mask: *cats* attends to itself, *chase* to
    both.
Z: The output of the encoder has three rows.
f G2: Each row of the decoder attends to them, and the result is added.
G3: The block of the feed-forward layer.
G3': Backward. Only the row of *chase* enters the loss.
G2': The feed-forward block treats each row on its own.
G1<G2 f': A sum passes its cotangent to both of its terms: skip connection and branch.
G1<f G1': Cross-attention returns two gradients. One goes through the queries to the decoder's
    stream.
Z': The other goes through keys and values to the source: all three of its rows get a gradient.
G0': Self-attention takes queries, keys and values from one stream: *cats*, to which *chase*
    attends, gets a gradient as well.
""")
