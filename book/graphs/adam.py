"""The third step of Adam, for the gradients 1, 1, -1."""

import numpy as np
from graphs import Graph, number

from transformer_core.optim import Adam

theta = {"theta": np.zeros(1)}
beta1, beta2 = 1 / 2, 15 / 16
adam = Adam(theta, learning_rate=1.0, beta1=beta1, beta2=beta2, eps=1e-300)


def moments():
    return (float(adam.averages[a]["theta"][0]) for a in ("first_moment", "second_moment"))


for gradient in (1.0, 1.0):
    adam.step({"theta": np.array([gradient])})
m2, v2 = moments()
before = theta["theta"][0]
g = -1.0
adam.step({"theta": np.array([g])})
m3, v3 = moments()
step = theta["theta"][0] - before
m_share, v_share = 1 - beta1**3, 1 - beta2**3

graph = Graph("The third step of Adam")
graph.node("m2 m₂", m2)
graph.node("g g₃", g)
graph.node("v2 v₂", v2)
graph.node("m3 m₃", m3, of="m2 g", by=lambda m, g: beta1 * m + (1 - beta1) * g)
graph.node("v3 v₃", v3, of="v2 g", by=lambda v, g: beta2 * v + (1 - beta2) * g * g)
graph.node(
    "m_hat m̂₃", m3 / m_share, of="m3", by=lambda m: m / m_share, says=f"m₃ / {number(m_share)}"
)
graph.node(
    "v_hat v̂₃", v3 / v_share, of="v3", by=lambda v: v / v_share, says=f"v₃ / {number(v_share)}"
)
graph.node("step", step, of="m_hat v_hat", unit=("η", 1), by=lambda m, v: -m / np.sqrt(v))
graph.place(
    "m2 0 0, g 0 1, v2 0 2, m3 1 0, v3 1 2, m_hat 2 0, v_hat 2 2, step 3 1",
    narrow="g 0 0.5, v2 0 1, v3 1 1, v_hat 2 1, step 3 0.5",
)
graph.edge("m3", "m_hat", label=f"÷ {number(m_share)}")
graph.edge("v3", "v_hat", label=f"÷ {number(v_share)}")

graph.narrate(f"""
m2 v2: After the gradients 1 and 1 the moments are m₂ = {number(m2)} and v₂ = {number(v2)}.
g: The third gradient is {number(g)}.
m3: The first moment keeps {number(beta1)} of itself and takes {number(1 - beta1)} of g₃: m₃ =
    {number(m3)}.
v3: The second keeps {number(beta2)} and takes {number(1 - beta2)} of g₃²: v₃ = {number(v3)}.
m_hat: Both began at 0. Divided by the sum of their weights so far, {number(m_share)}: m̂₃ =
    {number(m3 / m_share)}.
v_hat: And the second by {number(v_share)}: v̂₃ = {number(v3 / v_share)}.
step: The step is −η m̂₃ / √v̂₃ = {number(step)} η: a seventh of a learning rate, since the first
    moment still has the other sign.
""")
