"""RMSNorm of *cats*: two paths forward from x, two terms back."""

import numpy as np
from graphs import Graph, number, row

from book.sentence import EMBEDDING
from transformer_core.ops import rms_norm, rms_norm_backward

x = EMBEDDING[0]
gamma = np.array([2.0, 1, 3, 1])
dy = np.array([3.0, 3, 1, 0])
y, cache = rms_norm(x, gamma, eps=1e-300)
dx, dgamma = rms_norm_backward(dy, cache)

q, s = (x * x).mean(), 1 / cache.inv_rms[0]
g = dy * gamma
dq = -(g * x).sum() / (2 * s**3)
scale, square = g / s, dq * 2 * x / 4
TENTH = "1/√10", 1 / s

graph = Graph("RMSNorm of *cats*, forward and backward")
graph.node("x", x, dx, back_unit=TENTH)
graph.node("q", q, dq, back_unit=TENTH, of="x", by=lambda x: (x * x).mean())
graph.node(
    "x_hat x̂", cache.x_hat, g, unit=TENTH, back="g", of="x q", by=lambda x, q: x / np.sqrt(q)
)
graph.node("y", y, dy, unit=TENTH, of="x_hat", by=lambda x_hat: gamma * x_hat)
graph.way("x<x_hat", "scale", scale, "scale-term", says="g / s")
graph.way(
    "x<q",
    "square",
    square,
    "variance-term",
    says=f"−x̂ mean(g ⊙ x̂) / s, with mean(g ⊙ x) = {number((g * x).mean())}",
)
graph.place("x 0 0, q 1 1, x_hat 2 0, y 3 0")
graph.edge("x_hat", "y", label="γ")
graph.edge("x", "x_hat", label="1/√10")

graph.narrate(f"""
x: Forward. The embedding of *cats*: x = {row(x)}.
q: The mean of the four squares is q = {number(q)}. The mean of x is not subtracted.
x_hat: Divide by s = √10: x̂ = {row(cache.x_hat * s)} / √10. x reaches it along two paths.
y: Scale by γ = {row(gamma)}: y = {row(y * s)} / √10.
y': Backward. The loss gives ȳ = {row(dy)}; it does not depend on the last entry.
x_hat': Through the scale: g = ȳ ⊙ γ = {row(g)}.
x<x_hat: First path, from each x̂ to its own x: g / s = {row(scale * s)} / √10.
q' x<q: Second path, through the mean square, on which every x̂ depends: q̄ = −⟨g, x⟩ / 2s³ =
    {number(dq * s)} / √10, and each x gets ½ q̄ x, which is {row(square * s)} / √10.
x': The two add up to x̄ = {row(dx * s)} / √10. Its product with x is {number(dx @ x)}; its sum is
    not 0, and the last entry is the largest although the loss does not depend on y₃.
""")
