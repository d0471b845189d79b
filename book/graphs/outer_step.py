"""Two ranks that meet: three steps on one, one on the other, and an outer step."""

import numpy as np
from graphs import Graph, number, row

from transformer_core.distributed import LocalSteps
from transformer_core.ranks import on_threads

theta, targets, taken = 8.0, (0.0, 16.0), (3, 1)
eta, mu = 0.5, 0.5
shares = np.array(taken) / sum(taken)


def inner(theta, target, steps):
    """Steps of gradient descent on half the squared distance to a target, at the rate 1/2."""
    for _ in range(steps):
        theta = theta - (theta - target) / 2
    return theta


def work(communicator):
    parameters = {"theta": np.array([theta])}
    local = LocalSteps(parameters, eta, mu)
    rank = communicator.rank
    parameters["theta"][...] = inner(theta, targets[rank], taken[rank])
    local.meet(communicator, taken[rank])
    return local.shared[0], local.velocity[0]


shared, velocity = on_threads(2, work)[0]
ends = [inner(theta, *of_rank) for of_rank in zip(targets, taken, strict=True)]

graph = Graph("A round of local steps, and the outer step")
graph.node("theta θ", theta)
for r, name in enumerate("₀₁"):
    graph.node(
        f"e{r} θ{name}",
        ends[r],
        of="theta",
        by=lambda theta, r=r: inner(theta, targets[r], taken[r]),
    )
graph.node(
    "delta Δ",
    theta - shares @ ends,
    of="theta e0 e1",
    by=lambda theta, *ends: theta - shares @ ends,
)
graph.node("b", velocity, of="delta", by=lambda delta: mu * 0 + delta)
graph.node(
    "new new θ",
    shared,
    of="theta delta b",
    by=lambda theta, delta, b: theta - eta * (delta + mu * b),
)
graph.place(
    "theta 0 1, e0 1 0, e1 1 2, delta 2 1, b 3 0, new 4 1", narrow="e1 1 1, delta 2 0.5, new 4 0.5"
)
for r in range(2):
    graph.edge(f"e{r}", "delta", label=f"{taken[r]}/{sum(taken)}")

graph.narrate(f"""
theta: Both ranks begin a round at the same weight.
e0 e1: Rank 0 takes {taken[0]} steps, each half the way to {number(targets[0])}; rank 1 takes
    {taken[1]}, half the way to {number(targets[1])}.
delta: The mean way back, weighted by the steps {row(shares)}, is {number(theta)} less the mean of
    the two ends: {number(theta - shares @ ends)}.
b: The velocity was 0, so it is this way.
new: Nesterov's step with η = μ = {number(eta)}: the new weight is {number(shared)}, for both.
""")
