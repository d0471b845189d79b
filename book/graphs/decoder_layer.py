"""A Pre-LN layer of a decoder, with random weights: two rows ask a source of three."""

import numpy as np
from graphs import Graph, Way

from transformer_core.layers import DecoderLayer, LayerSpec
from transformer_core.ops import causal_keep, layer_norm
from transformer_core.sentence import EMBEDDING, TOKENS

layer = DecoderLayer(
    LayerSpec(4, 2, 16, "pre", dtype="float64"), np.random.default_rng(5)
)
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

graph = Graph("One layer of a decoder, and its source", lanes=2)
graph.node("G0", "G₀", g0, dg0, at=(0, 1), narrow=(0, 0), rows=TOKENS[:2], digits=1)
graph.node(
    "G1",
    "G′",
    g1,
    dg1,
    at=(0, 0),
    narrow=(1, 0),
    of="G0",
    by=look_back,
    digits=1,
    ways=(Way("G2", "skip", dg2), Way("f", "queries", dg1 - dg2)),
)
graph.node("Z", "Z", z, dz, at=(1, 2), narrow=(2, 0.9), rows=TOKENS, digits=1)
graph.node("f", "f", f, dg2, at=(1, 1), narrow=(3, 0.9), of="G1 Z", by=ask, digits=1)
graph.node(
    "G2", "G″", g2, dg2, at=(2, 0), narrow=(4, 0), of="G1 f", by=np.add, digits=1
)
graph.node(
    "G3", "G₁", y, dy, at=(2, 1), narrow=(5, 0), of="G2", by=feed_forward, digits=1
)
graph.edge("G0", "G1", label="self-attention")
graph.edge("G1", "f", narrow=-0.15)
graph.edge("G1", "G2", narrow=-0.4)
graph.edge("Z", "f", label="keys, values")
graph.edge("G2", "G3", label="FFN")

graph.step(
    "Forward. The decoder has two rows, and a third word is to be written.", "G0"
)
graph.step(
    "The block of the self-attention, under the causal mask: *cats* attends to itself, *chase* to "
    "both.",
    "G1",
)
graph.step("The encoder hands over three rows.", "Z")
graph.step("Each row asks them, and adds what it found.", "f", "G2")
graph.step("The block of the feed-forward layer.", "G3")
graph.step("Backward. The loss reads the row of *chase* alone.", "G3'")
graph.step("The feed-forward block knows one row at a time.", "G2'")
graph.step(
    "A sum hands its cotangent to both: skip connection and branch.", "G1<G2", "f'"
)
graph.step(
    "Cross-attention returns two gradients. One goes through the queries to its own stream.",
    "G1<f",
    "G1'",
)
graph.step(
    "The other goes through keys and values to the source: all three of its rows are told.",
    "Z'",
)
graph.step(
    "Self-attention takes queries, keys and values from one stream: *cats*, which *chase* has "
    "read, is told as well.",
    "G0'",
)
