"""Cross-entropy of one word: logits, their log-sum-exp, logarithms of probabilities, loss."""

import numpy as np
from graphs import Graph, number, row

from transformer_core.ops import cross_entropy, cross_entropy_backward

z = np.log(2) * np.array([2.0, 0, 1])
target = 0
loss, cache = cross_entropy(z[np.newaxis], np.array([target]))
dz = cross_entropy_backward(1.0, cache)[0]
p = cache.p[0]
lse = np.log(np.exp(z).sum())
dlog_p = np.where(np.arange(3) == target, -1.0, 0)
dlse = -dlog_p.sum()

graph = Graph("Cross-entropy: the masked word was *cats*")
graph.node("z", z, dz)
graph.node(
    "lse",
    lse,
    dlse,
    of="z",
    by=np.logaddexp.reduce,
    says=f"{number(z.max())} + {number(lse - z.max())}, shifted by the largest logit",
)
graph.node("log_p ln p", np.log(p), dlog_p, of="z lse", by=lambda z, lse: z - lse)
graph.node("loss ℒ", loss, 1.0, of="log_p", by=lambda log_p: -log_p[target])
graph.way("z<log_p", "−[v = t]", dlog_p)
graph.way("z<lse", "p", p * dlse)
graph.place("z 0 0, lse 1 1, log_p 2 0, loss 3 0")
graph.edge("z", "lse", label="p")

graph.narrate(f"""
z: Forward. Three logits, z = {row(z)}.
lse: The logarithm of the sum of their exponentials is {number(lse)}.
log_p: z − lse is the logarithm of the probabilities p = {row(p)}.
loss: The word was *cats*: ℒ = −ln {number(p[target])} = {number(loss)}.
loss': Backward. The loss is the end: its cotangent is 1.
log_p': The loss depends on the logarithm at the target: {row(dlog_p)}.
z<log_p: Directly to the logits: −1 at the target.
lse' z<lse: All three logarithms contain lse, so its cotangent is {number(dlse)}. Its slope is p:
    {row(p * dlse)}.
z': The probabilities minus the one-hot target: z̄ = {row(dz)}, with the sum
    {number(dz.sum())}.
""")
