"""Two queries and two keys: scores, and the surprise of each query at its own key."""

import numpy as np
from graphs import Graph, number, row

from transformer_core.ops import contrastive_loss, contrastive_loss_backward

q = np.eye(2)
k = np.array([[0.8, 0.6], [0.6, 0.8]])
tau = 0.2 / np.log(2)
loss, cache = contrastive_loss(q, k, tau)
dq, dk, dtau = contrastive_loss_backward(1.0, cache)
p = cache.loss.p
ds = (p - np.eye(2)) / 2


def surprise(s):
    return (np.log(np.exp(s).sum(axis=1)) - s.diagonal()).mean()


graph = Graph("The contrastive loss of two pairs")
graph.node("q", q, dq)
graph.node("k", k, dk)
graph.node("tau τ", tau, dtau)
graph.node("s", cache.scores, ds, of="q k tau", by=lambda q, k, tau: q @ k.T / tau)
graph.node("loss ℒ", loss, 1.0, of="s", by=surprise)
graph.place("q 0 0, k 0 1, tau 0 2, s 1 1, loss 2 1", narrow="k 0 2, tau 1 2, s 2 1, loss 3 1")

graph.narrate(f"""
q: Forward. Two queries of length 1.
k: And two keys. The first belongs to the first query, the second to the second.
tau: The temperature is 0.2 / ln 2 = {number(tau)}, so that scores are multiples of ln 2.
s: Every query with every key: 4 ln 2 with its own, 3 ln 2 with the other one.
loss: Each query gives its own key {number(p[0, 0])}: ℒ = −ln {number(p[0, 0])} = {number(loss)}.
loss': Backward. The loss is the end: its cotangent is 1.
s': Probabilities minus one-hot, over the two queries: {row(ds[0])} in the first row.
q': The first query moves from the wrong key to its own: q̄ = {row(dq[0])}.
k': The keys' gradients are {row(dk[0])} and {row(dk[1])}: their sum is 0.
tau': A higher temperature makes scores more alike, and the loss larger: {number(dtau)}.
""")
