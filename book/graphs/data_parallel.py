"""Four tokens on two ranks: the output layer's bias is copied, its gradients are added."""

import numpy as np
from graphs import Graph, row

from book.sentence import TOKENS
from transformer_core.ops import cross_entropy, cross_entropy_backward

b = np.array([0, np.log(2), 0])
targets = [np.array([0, 1, 2]), np.array([0])]  # cats chase mice | cats
counts = np.array([len(part) for part in targets])
shares = counts / counts.sum()


def loss_and_cache(b, part):
    return cross_entropy(np.tile(b, (len(part), 1)), part)


losses, gradients = [], []
for part, share in zip(targets, shares, strict=True):
    loss, cache = loss_and_cache(b, part)
    losses.append(float(loss))
    gradients.append(share * cross_entropy_backward(1.0, cache).sum(axis=0))

graph = Graph("Four tokens on two ranks, and the bias of their output layer")
sixteenths = {"back_unit": ("1/16", 1 / 16)}
graph.node("b", b, sum(gradients), **sixteenths)
for j, name in enumerate("₀₁"):
    graph.node(f"b{j} b{name}", b, gradients[j], of="b", by=lambda b: b, **sixteenths)
    graph.node(
        f"L{j} ℒ{name}",
        losses[j],
        shares[j],
        of=f"b{j}",
        by=lambda b, j=j: loss_and_cache(b, targets[j])[0],
    )
graph.node("L ℒ", float(shares @ losses), 1.0, of="L0 L1", by=lambda *losses: shares @ losses)
graph.place("b 0 0.5, b0 1 0, L0 2 0, b1 1 1, L1 2 1, L 3 0.5")
for j in range(2):
    graph.edge(f"L{j}", "L", label=f"{counts[j]}/{counts.sum()}")

words = [" ".join(TOKENS[t] for t in part) for part in targets]
graph.narrate(f"""
b: Forward. One bias, which makes the probabilities 1/4, 1/2, 1/4 everywhere.
b0 b1: Broadcast: each rank has a copy of it.
L0 L1: Rank 0 has the targets *{words[0]}*, rank 1 has *{words[1]}*. Each takes the mean of its own
    losses.
L: Weighted with 3 and 1 tokens of 4 they give {row(shares @ losses)}.
L': Backward. The loss is the end: its cotangent is 1.
L0' L1': The ranks get their shares of the tokens, {row(shares)}.
b0' b1': Each rank runs its backward pass alone.
b': Reduce: what was copied gets the sum, {row(sum(gradients))}. *mice* is as frequent as the bias
    says, so its entry is 0.
""")
