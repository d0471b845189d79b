"""GELU with a hyperbolic tangent, of the hidden units of *cats*: two links to the gate."""

import numpy as np
from graphs import Graph, Way, row

from transformer_core.ops import gelu, gelu_backward, gelu_tanh, gelu_tanh_backward
from transformer_core.ops.gelu import CUBIC, SLOPE

x = np.array([3.0, -1])
dy = np.array([4.0, -1])
y, cache = gelu_tanh(x)
dx = gelu_tanh_backward(dy, cache)
u = SLOPE * (x + CUBIC * x**3)
gate = (1 + cache.tanh) / 2
dgate = dy * x
bend = (1 - cache.tanh**2) / 2
du = dgate * bend
slope = SLOPE * (1 + 3 * CUBIC * x**2)

graph = Graph("GELU with a hyperbolic tangent, of two hidden units", lanes=2)
graph.node(
    "x",
    "x",
    x,
    dx,
    at=(0, 0),
    digits=3,
    ways=(Way("y", "factor", dy * gate), Way("u", "gate", du * slope)),
)
graph.node(
    "u",
    "u",
    u,
    du,
    at=(1, 1),
    of="x",
    by=lambda x: SLOPE * (x + CUBIC * x**3),
    digits=3,
)
graph.node(
    "gate",
    "g",
    gate,
    dgate,
    at=(2, 1),
    of="u",
    by=lambda u: (1 + np.tanh(u)) / 2,
    digits=3,
)
graph.node(
    "y",
    "y",
    y,
    dy,
    at=(3, 0),
    of="x gate",
    by=lambda x, gate: x * gate,
    digits=3,
)
graph.edge("x", "u", label="u′")

graph.step(f"Forward. The two units of *cats*, x = {row(x)}.", "x")
graph.step(f"First the polynomial: u = {row(u, 3)}.", "u")
graph.step(f"The gate g = ½ (1 + tanh u) = {row(gate, 3)}.", "gate")
graph.step(f"y = x ⊙ g = {row(y, 3)}.", "y")
graph.step(f"Backward. The units are told ȳ = {row(dy)}.", "y'")
graph.step(f"Through the factor x: ȳ ⊙ g = {row(dy * gate, 3)}.", "x<y")
graph.step(f"The gate is told ḡ = ȳ ⊙ x = {row(dgate)}.", "gate'")
graph.step(
    f"Its slope is ½ (1 − tanh² u) = {row(bend, 3)}: ū = {row(du, 3)}.",
    "u'",
)
graph.step(
    f"The slope of the polynomial is u′ = {row(slope, 3)}: {row(du * slope, 3)}.", "x<u"
)
graph.step(
    f"Together: x̄ = {row(dx, 3)}. GELU itself returns {row(gelu_backward(dy, gelu(x)[1]), 3)}.",
    "x'",
)
