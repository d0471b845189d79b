"""Four tokens on two ranks: the read-out's bias is copied, its gradients are added."""

import numpy as np
from graphs import Graph, row

from transformer_core.ops import cross_entropy, cross_entropy_backward
from transformer_core.sentence import TOKENS

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

graph = Graph("Four tokens on two ranks, and the bias of their read-out", lanes=2)
sixteenths = {"back_unit": ("1/16", 1 / 16)}
graph.node("b", "b", b, sum(gradients), at=(0, 0.5), **sixteenths)
for j, name in enumerate("₀₁"):
    graph.node(
        f"b{j}",
        f"b{name}",
        b,
        gradients[j],
        at=(1, j),
        of="b",
        by=lambda b: b,
        back=f"b̄{name}",
        **sixteenths,
    )
    graph.node(
        f"L{j}",
        f"ℒ{name}",
        losses[j],
        shares[j],
        at=(2, j),
        of=f"b{j}",
        by=lambda b, j=j: loss_and_cache(b, targets[j])[0],
        back=f"ℒ̄{name}",
    )
graph.node(
    "L",
    "ℒ",
    float(shares @ losses),
    1.0,
    at=(3, 0.5),
    of="L0 L1",
    by=lambda *losses: shares @ losses,
    back="ℒ̄",
)
for j in range(2):
    graph.edge(f"L{j}", "L", label=f"{counts[j]}/{counts.sum()}")

words = [" ".join(TOKENS[t] for t in part) for part in targets]
graph.step(
    "Forward. One bias, which makes the probabilities 1/4, 1/2, 1/4 everywhere.", "b"
)
graph.step("Broadcast: each rank has a copy of it.", "b0", "b1")
graph.step(
    f"Rank 0 has the targets *{words[0]}*, rank 1 has *{words[1]}*. Each takes the mean of "
    "its own losses.",
    "L0",
    "L1",
)
graph.step(
    f"Weighted with 3 and 1 tokens of 4 they give {row(shares @ losses)}.",
    "L",
)
graph.step("Backward. The loss is the end: its cotangent is 1.", "L'")
graph.step(f"The ranks get their shares of the tokens, {row(shares)}.", "L0'", "L1'")
graph.step("Each rank runs its backward pass alone.", "b0'", "b1'")
graph.step(
    f"Reduce: what was copied gets the sum, {row(sum(gradients))}. *mice* is as frequent as "
    "the bias says, so its entry is 0.",
    "b'",
)
