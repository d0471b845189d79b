"""Two ranks that meet: three steps on one, one on the other, and an outer step."""

from functools import partial

import numpy as np
from graphs import Graph, number

from transformer_core.distributed import LocalSteps
from transformer_core.ranks import on_threads

theta, targets, taken = 8.0, (0.0, 16.0), (3, 1)
eta, mu = 0.5, 0.5
shares = np.array([0.5, 0.5])


def inner(theta, target, steps):
    """Steps of gradient descent on half the squared distance to a target, at the rate 1/2."""
    for _ in range(steps):
        theta = theta - (theta - target) / 2
    return theta


def displacement(theta, *ends):
    return theta - shares @ ends


def work(communicator):
    parameters = {"theta": np.array([theta])}
    local = LocalSteps(parameters, eta, mu)
    parameters["theta"][...] = rounds[communicator.rank](theta)
    local.meet(communicator)
    return local.shared[0], local.velocity[0]


rounds = [partial(inner, target=at, steps=n) for at, n in zip(targets, taken, strict=True)]
ends = [of_rank(theta) for of_rank in rounds]
shared, velocity = on_threads(2, work)[0]

graph = Graph("A round of local steps, and the outer step")
graph.node("theta θ", theta)
for r, name in enumerate("₀₁"):
    graph.node(f"e{r} θ{name}", ends[r], of="theta", by=rounds[r])
graph.node("delta Δ", displacement(theta, *ends), of="theta e0 e1", by=displacement)
graph.node("v", velocity, of="delta", by=lambda delta: mu * 0 + delta)
graph.node(
    "new new θ",
    shared,
    of="theta delta v",
    by=lambda theta, delta, v: theta - eta * (delta + mu * v),
)
graph.place(
    "theta 0 1, e0 1 0, e1 1 2, delta 2 1, v 3 0, new 4 1", narrow="e1 1 1, delta 2 0.5, new 4 0.5"
)
for r in range(2):
    graph.edge(f"e{r}", "delta", label="1/2")

graph.narrate(f"""
theta: Both ranks begin a round at the same weight.
e0 e1: Rank 0 takes {taken[0]} steps, each half the distance to {number(targets[0])}; rank 1 takes
    {taken[1]}, half the distance to {number(targets[1])}.
delta: The mean displacement, with equal weights, is {number(theta)} less the mean of the two ends:
    {number(displacement(theta, *ends))}.
v: The velocity was 0, so it becomes this displacement.
new: Nesterov's step with η = μ = {number(eta)}: the new weight is {number(shared)}, for both.
""")
