"""Four tokens in two micro-batches: each token has the same weight."""

import numpy as np
from graphs import Graph, number, row

losses = [np.array([8.0]), np.array([1.0, 2, 3])]
counts = np.array([len(part) for part in losses])
means = [part.mean() for part in losses]
shares = counts / counts.sum()
loss = float(shares @ means)
dlosses = [np.full(n, share / n) for n, share in zip(counts, shares, strict=True)]

graph = Graph("The loss of two micro-batches", lanes=2)
for j, name in enumerate("₀₁"):
    graph.node(f"l{j}", f"ℓ{name}", losses[j], dlosses[j], at=(0, j), back=f"ℓ̄{name}")
    graph.node(
        f"L{j}",
        f"ℒ{name}",
        means[j],
        shares[j],
        at=(1, j),
        of=f"l{j}",
        by=np.mean,
        back=f"ℒ̄{name}",
    )
graph.node(
    "L",
    "ℒ",
    loss,
    1.0,
    at=(2, 0.5),
    of="L0 L1",
    by=lambda *means: shares @ means,
    back="ℒ̄",
)
for j in range(2):
    graph.edge(f"L{j}", "L", label=f"{counts[j]}/{counts.sum()}")

graph.step(
    f"Forward. One part counts {counts[0]} token, the other {counts[1]}.", "l0", "l1"
)
graph.step(
    f"Their mean losses are {number(means[0])} and {number(means[1])}.", "L0", "L1"
)
graph.step(
    f"Weighted with their tokens they give {number(loss)}, the mean of all four. The mean of "
    f"the two means would be {number(np.mean(means))}.",
    "L",
)
graph.step("Backward. The loss is the end: its cotangent is 1.", "L'")
graph.step(f"The parts get their shares of the tokens, {row(shares)}.", "L0'", "L1'")
graph.step(
    f"Within a part a share is divided by its tokens: {number(dlosses[0][0])} for each of the "
    "four, whichever part it is in.",
    "l0'",
    "l1'",
)
