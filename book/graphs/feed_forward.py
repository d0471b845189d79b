"""The feed-forward layer with ReLU, on *cats*: two units, one of them silent."""

import numpy as np
from graphs import Graph, number, row

from transformer_core.ops import linear, linear_backward, relu, relu_backward
from transformer_core.sentence import EMBEDDING

x = EMBEDDING[0]
w1 = np.array([[1.0, -1], [1, 0], [0, 1], [1, 0]])
b1 = np.array([1.0, 1])
w2 = np.array([[1.0, 0, -1, 2], [0, 1, 2, -1]])
b2 = np.array([1.0, 0, 0, -1])
dy = np.array([1.0, 2, -1, 1])
h, read = linear(x, w1, b1)
a, bent = relu(h)
y, written = linear(a, w2, b2)
da, dw2, db2 = linear_backward(dy, written)
dh = relu_backward(da, bent)
dx, dw1, db1 = linear_backward(dh, read)
gradients = [dw1, db1, dw2, db2]
silent = sum(int((g == 0).sum()) for g in gradients)
parameters = sum(g.size for g in gradients)

graph = Graph("The feed-forward layer on *cats*", lanes=2)
graph.node("x", "x", x, dx, at=(0, 0))
graph.node("W1", "W₁", w1, dw1, at=(1, 1), narrow=(0, 1))
graph.node("h", "h", h, dh, at=(1, 0), of="x W1", by=lambda x, w: x @ w + b1)
graph.node("a", "a", a, da, at=(2, 0), of="h", by=lambda h: np.maximum(h, 0))
graph.node("W2", "W₂", w2, dw2, at=(3, 1), narrow=(2, 1))
graph.node("y", "y", y, dy, at=(3, 0), of="a W2", by=lambda a, w: a @ w + b2)
graph.edge("h", "a", label=row((h > 0).astype(int)))

graph.step(f"Forward. *cats*, x = {row(x)}.", "x")
graph.step(f"Two units read it: h = x W₁ + {row(b1)} = {row(h)}.", "W1", "h")
graph.step(f"ReLU lets the positive one pass: a = {row(a)}.", "a")
graph.step(
    f"Each unit writes its row of W₂ as strongly as it is on, and b₂ = {row(b2)} is added: "
    f"y = {row(y)}.",
    "W2",
    "y",
)
graph.step(f"Backward. The cotangent of the output is ȳ = {row(dy)}.", "y'")
graph.step(f"Each unit is told what its row would win: ā = ȳ W₂ᵀ = {row(da)}.", "a'")
graph.step(
    "W̄₂ = aᵀ ȳ: the silent unit has written nothing, and its row gets zeros.", "W2'"
)
graph.step(f"ReLU lets back what it let pass: h̄ = {row(dh)}.", "h'")
graph.step("W̄₁ = xᵀ h̄: the column of the silent unit gets zeros.", "W1'")
graph.step(
    f"x̄ = h̄ W₁ᵀ = {row(dx)}. With the biases, {silent} of {parameters} parameters have the "
    f"gradient 0, although the silent unit would be told {number(da[1])}.",
    "x'",
)
