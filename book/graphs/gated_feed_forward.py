"""SwiGLU on *cats*: x becomes two gates and two values, which meet in a product."""

import numpy as np
from graphs import Graph, row

from book.sentence import EMBEDDING
from transformer_core.layers import GatedFeedForward
from transformer_core.ops import gated_product_backward, silu, silu_backward

x = EMBEDDING[0]
wg = np.array([[1.0, -1], [1, 0], [0, 1], [1, 0]])
wv = np.array([[0.0, 0], [1, 1], [0, 1], [0, 0]])
w2 = np.array([[1.0, 0, -1, 2], [0, 1, 2, -1]])
dy = np.array([1.0, 2, -1, 1])
layer = GatedFeedForward(4, 2, np.random.default_rng(0), np.float64)
layer.set_parameters({"gate.weight": wg, "value.weight": wv, "output.weight": w2})
y, cache = layer.forward(x)
dx, _ = layer.backward(dy, cache)
h, (g, v) = x @ wg, cache.product
dp = dy @ w2.T
dg, dv = gated_product_backward(dp, cache.product)
dh = silu_backward(dg, cache.activation)

graph = Graph("SwiGLU on *cats*, with two units", digits=1, exact=False)
graph.node("x", x, dx)
graph.node("h", h, dh, of="x", by=lambda x: x @ wg)
graph.node("g", g, dg, of="h", by=lambda h: silu(h)[0])
graph.node("v", v, dv, of="x", by=lambda x: x @ wv)
graph.node("p", g * v, dp, of="g v", by=lambda g, v: g * v)
graph.node("y", y, dy, of="p", by=lambda p: p @ w2)
graph.way("x<h", "gate", dh @ wg.T, says="h̄ W_gᵀ")
graph.way("x<v", "value", dv @ wv.T, says="v̄ W_vᵀ")
graph.place("x 0 0.5, h 1 0, g 2 0, v 2 1, p 3 0.5, y 4 0.5", narrow="v 1 1")
graph.edge("h", "g", label="f")

graph.narrate(f"""
x: Forward. *cats*, x = {row(x)}, is read twice.
h: The gates before the activation: h = x W_g = {row(h)}.
g: SiLU opens one and shuts the other, but not quite: g = {row(g)}.
v: The values: v = x W_v = {row(v)}.
p: Each gate decides how much of its value passes: p = g ⊙ v = {row(g * v)}.
y: Each unit writes its row of W₂: y = {row(y)}.
y': Backward. The cotangent of the output is ȳ = {row(dy)}.
p': Each unit gets the product of ȳ and its row: p̄ = ȳ W₂ᵀ = {row(dp)}.
v': The value's gradient has the gate as its factor: v̄ = p̄ ⊙ g = {row(dv)}.
g': The gate's gradient has the value as its factor: ḡ = p̄ ⊙ v = {row(dg)}.
h': Through SiLU, with the slope at h: h̄ = {row(dh)}.
x<h: Back through the gate's map: {row(dh @ wg.T)}.
x<v: Back through the value's map: {row(dv @ wv.T)}.
x': Both add up: x̄ = {row(dx)}.
""")
