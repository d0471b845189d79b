"""The feed-forward layer with ReLU, on *cats*: two units, one of them silent."""

import numpy as np
from graphs import Graph, number, row

from book.sentence import EMBEDDING
from transformer_core.ops import linear, linear_backward, relu, relu_backward

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

graph = Graph("The feed-forward layer on *cats*")
graph.node("x", x, dx)
graph.node("W1 W₁", w1, dw1)
graph.node("h", h, dh, of="x W1", by=lambda x, w: x @ w + b1)
graph.node("a", a, da, of="h", by=lambda h: np.maximum(h, 0))
graph.node("W2 W₂", w2, dw2)
graph.node("y", y, dy, of="a W2", by=lambda a, w: a @ w + b2)
graph.place("x 0 0, W1 1 1, h 1 0, a 2 0, W2 3 1, y 3 0", narrow="W1 0 1, W2 2 1")
graph.edge("h", "a", label=row((h > 0).astype(int)))

graph.narrate(f"""
x: Forward. *cats*, x = {row(x)}.
W1 h: Two units read it: h = x W₁ + {row(b1)} = {row(h)}.
a: ReLU lets the positive one pass: a = {row(a)}.
W2 y: Each unit writes its row of W₂ as strongly as it is on, and b₂ = {row(b2)} is added: y =
    {row(y)}.
y': Backward. The cotangent of the output is ȳ = {row(dy)}.
a': Each unit gets the product of ȳ and its row: ā = ȳ W₂ᵀ = {row(da)}.
W2': W̄₂ = aᵀ ȳ: the output of the silent unit is 0, and its row gets zeros.
h': ReLU passes back where it passed forward: h̄ = {row(dh)}.
W1': W̄₁ = xᵀ h̄: the column of the silent unit gets zeros.
x': x̄ = h̄ W₁ᵀ = {row(dx)}. With the biases, {silent} of {parameters} parameters have the gradient
    0, although ā of the silent unit is {number(da[1])}.
""")
