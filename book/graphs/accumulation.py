"""Four tokens in two micro-batches: each token has the same weight."""

import numpy as np
from graphs import Graph, number, row

losses = [np.array([8.0]), np.array([1.0, 2, 3])]
counts = np.array([len(part) for part in losses])
means = [part.mean() for part in losses]
shares = counts / counts.sum()
loss = float(shares @ means)
dlosses = [np.full(n, share / n) for n, share in zip(counts, shares, strict=True)]

graph = Graph("The loss of two micro-batches")
for j, name in enumerate("₀₁"):
    graph.node(f"l{j} ℓ{name}", losses[j], dlosses[j])
    graph.node(f"L{j} ℒ{name}", means[j], shares[j], of=f"l{j}", by=np.mean)
graph.node("L ℒ", loss, 1.0, of="L0 L1", by=lambda *means: shares @ means)
graph.place("l0 0 0, L0 1 0, l1 0 1, L1 1 1, L 2 0.5")
for j in range(2):
    graph.edge(f"L{j}", "L", label=f"{counts[j]}/{counts.sum()}")

graph.narrate(f"""
l0 l1: Forward. One part counts {counts[0]} token, the other {counts[1]}.
L0 L1: Their mean losses are {number(means[0])} and {number(means[1])}.
L: Weighted with their tokens they give {number(loss)}, the mean of all four. The mean of the two
    means would be {number(np.mean(means))}.
L': Backward. The loss is the end: its cotangent is 1.
L0' L1': The parts get their shares of the tokens, {row(shares)}.
l0' l1': Within a part a share is divided by its tokens: {number(dlosses[0][0])} for each of the
    four, whichever part it is in.
""")
