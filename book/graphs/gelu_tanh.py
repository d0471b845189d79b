"""GELU with a hyperbolic tangent, of the hidden units of *cats*: two links to the gate."""

import numpy as np
from graphs import Graph, row

from transformer_core.ops import gelu, gelu_backward, gelu_tanh, gelu_tanh_backward
from transformer_core.ops.gelu import CUBIC, SLOPE

x = np.array([3.0, -1])
dy = np.array([4.0, -1])
y, cache = gelu_tanh(x)
dx = gelu_tanh_backward(dy, cache)
u = SLOPE * (x + CUBIC * x**3)
gate = (1 + cache.tanh) / 2
dgate = dy * x
tanh_slope = (1 - cache.tanh**2) / 2
du = dgate * tanh_slope
slope = SLOPE * (1 + 3 * CUBIC * x**2)

graph = Graph("GELU with a hyperbolic tangent, of two hidden units", digits=3)
graph.node("x_tanh x", x, dx)
graph.node("u", u, du, of="x_tanh", by=lambda x: SLOPE * (x + CUBIC * x**3))
graph.node("gate g", gate, dgate, of="u", by=lambda u: (1 + np.tanh(u)) / 2)
graph.node("y_tanh y", y, dy, of="x_tanh gate", by=lambda x, gate: x * gate)
graph.way("x_tanh<y_tanh", "factor", dy * gate)
graph.way("x_tanh<u", "gate", du * slope)
graph.place("x_tanh 0 0, u 1 1, gate 2 1, y_tanh 3 0")
graph.edge("x_tanh", "u", label="u′")

graph.narrate(f"""
x_tanh: Forward. The two units of *cats*, x = {row(x)}.
u: First the polynomial: u = {row(u, 3)}.
gate: The gate g = ½ (1 + tanh u) = {row(gate, 3)}.
y_tanh: y = x ⊙ g = {row(y, 3)}.
y_tanh': Backward. The cotangents are ȳ = {row(dy)}.
x_tanh<y_tanh: Through the factor x: ȳ ⊙ g = {row(dy * gate, 3)}.
gate': The gate gets ḡ = ȳ ⊙ x = {row(dgate)}.
u': Its slope is ½ (1 − tanh² u) = {row(tanh_slope, 3)}: ū = {row(du, 3)}.
x_tanh<u: The slope of the polynomial is u′ = {row(slope, 3)}: {row(du * slope, 3)}.
x_tanh': Together: x̄ = {row(dx, 3)}. GELU itself returns {row(gelu_backward(dy, gelu(x)[1]), 3)}.
""")
