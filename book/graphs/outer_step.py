"""Two ranks that meet: three steps on one, one on the other, and an outer step."""

import numpy as np
from graphs import Graph, number, row

from transformer_core.distributed import LocalSteps, on_threads

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

graph = Graph("A round of local steps, and the outer step", lanes=2)
graph.node("theta", "θ", theta, at=(0, 1))
for r, name in enumerate("₀₁"):
    graph.node(
        f"e{r}",
        f"θ{name}",
        ends[r],
        at=(1, 2 * r),
        narrow=(1, r),
        of="theta",
        by=lambda theta, r=r: inner(theta, targets[r], taken[r]),
    )
graph.node(
    "delta",
    "Δ",
    theta - shares @ ends,
    at=(2, 1),
    narrow=(2, 0.5),
    of="theta e0 e1",
    by=lambda theta, *ends: theta - shares @ ends,
)
graph.node(
    "b",
    "b",
    velocity,
    at=(3, 0),
    narrow=(3, 0),
    of="delta",
    by=lambda delta: mu * 0 + delta,
)
graph.node(
    "new",
    "new θ",
    shared,
    at=(4, 1),
    narrow=(4, 0.5),
    of="theta delta b",
    by=lambda theta, delta, b: theta - eta * (delta + mu * b),
)
for r in range(2):
    graph.edge(f"e{r}", "delta", label=f"{taken[r]}/{sum(taken)}")

graph.step("Both ranks begin a round at the same weight.", "theta")
graph.step(
    f"Rank 0 takes {taken[0]} steps, each half the way to {number(targets[0])}; rank 1 takes "
    f"{taken[1]}, half the way to {number(targets[1])}.",
    "e0",
    "e1",
)
graph.step(
    f"The mean way back, weighted by the steps {row(shares)}, is {number(theta)} less the mean "
    f"of the two ends: {number(theta - shares @ ends)}.",
    "delta",
)
graph.step("The velocity was 0, so it is this way.", "b")
graph.step(
    f"Nesterov's step with η = μ = {number(eta)}: the new weight is {number(shared)}, for both.",
    "new",
)
