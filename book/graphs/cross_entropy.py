"""Cross-entropy of one word: logits, their log-sum-exp, logarithms of probabilities, loss."""

import numpy as np
from graphs import Graph, Way, number, row

from transformer_core.ops import cross_entropy, cross_entropy_backward

z = np.log(2) * np.array([2.0, 0, 1])
target = 0
loss, cache = cross_entropy(z[np.newaxis], np.array([target]))
dz = cross_entropy_backward(1.0, cache)[0]
p = cache.p[0]
lse = np.log(np.exp(z).sum())
dlog_p = np.where(np.arange(3) == target, -1.0, 0)
dlse = -dlog_p.sum()

graph = Graph("Cross-entropy: the hidden word was *cats*", lanes=2)
graph.node(
    "z",
    "z",
    z,
    dz,
    at=(0, 0),
    ways=(Way("log_p", "−[v = t]", dlog_p), Way("lse", "p", p * dlse)),
)
graph.node(
    "lse", "lse", lse, dlse, at=(1, 1), of="z", by=lambda z: np.log(np.exp(z).sum())
)
graph.node(
    "log_p", "ln p", np.log(p), dlog_p, at=(2, 0), of="z lse", by=lambda z, lse: z - lse
)
graph.node(
    "loss", "ℒ", loss, 1.0, at=(3, 0), of="log_p", by=lambda log_p: -log_p[target]
)
graph.edge("z", "lse", label="p")

graph.step(f"Forward. Three logits, z = {row(z)}.", "z")
graph.step(f"The logarithm of the sum of their exponentials is {number(lse)}.", "lse")
graph.step(f"z − lse is the logarithm of the probabilities p = {row(p)}.", "log_p")
graph.step(
    f"The word was *cats*: ℒ = −ln {number(p[target])} = {number(loss)}.", "loss"
)
graph.step("Backward. The loss is the end: its cotangent is 1.", "loss'")
graph.step(f"The loss reads the logarithm at the target: {row(dlog_p)}.", "log_p'")
graph.step("Directly to the logits: 1 less where the answer was.", "z<log_p")
graph.step(
    f"All three logarithms contain lse, so its cotangent is {number(dlse)}. Its slope is p: "
    f"{row(p * dlse)}.",
    "lse'",
    "z<lse",
)
graph.step(
    f"What the model said minus what it should have said: z̄ = {row(dz)}, with the sum "
    f"{number(dz.sum())}.",
    "z'",
)
