"""Two heads on *cats chase mice*, for the query of *chase*: split, average, merge, project."""

from functools import partial

import numpy as np
from graphs import Graph, row

from book.sentence import EMBEDDING, KEY, QUERY, TOKENS, VALUE
from transformer_core.ops import linear, linear_backward, merge_heads, softmax, split_heads

value = np.hstack([VALUE, EMBEDDING[:, :2]])
weights = softmax(QUERY[1] @ KEY.T / 2)[0], np.array([1.0, 2, 1]) / 4
values = split_heads(value[np.newaxis], 2)[0]
outputs = [a @ v for a, v in zip(weights, values, strict=True)]
c = merge_heads(np.stack(outputs)[np.newaxis, :, np.newaxis])[0, 0]
w = np.array([[1.0, 0, 2, 0], [0, 1, 0, -1], [1, 0, 1, 0], [0, -1, 0, 1]])
y, cache = linear(c, w)
dy = np.array([0.0, 1, 1, 0])
dc, dw, _ = linear_backward(dy, cache)
doutputs = split_heads(dc[np.newaxis, np.newaxis], 2)[0, :, 0]
dvalues = [np.outer(a, do) for a, do in zip(weights, doutputs, strict=True)]
dvalue = merge_heads(np.stack(dvalues)[np.newaxis])[0]
shares = [outputs[0] @ w[:2], outputs[1] @ w[2:]]

graph = Graph("Two heads, for the query of *chase*")
graph.node("V", value, dvalue, rows=TOKENS, hue="value-hue")
for h, name in enumerate(("⁽⁰⁾", "⁽¹⁾")):
    columns = partial(np.take, indices=[2 * h, 2 * h + 1], axis=1)
    graph.node(f"V{h} V{name}", values[h], dvalues[h], of="V", by=columns, hue="value-hue")
    graph.node(f"a{h} a{name}", weights[h], values[h] @ doutputs[h])
    graph.node(f"o{h} o{name}", outputs[h], doutputs[h], of=f"V{h} a{h}", by=lambda v, a: a @ v)
graph.node("c", c, dc, of="o0 o1", by=lambda *o: np.concatenate(o))
graph.node("W Wₒ", w, dw)
graph.node("y", y, dy, of="c W", by=lambda c, w: c @ w)
graph.place(
    "V 0 1, V0 1 0, a0 1 1, o0 2 0.5, V1 1 2, a1 1 3, o1 2 2.5, c 3 0.4, W 3 2.4, y 3 1.2",
    narrow="V 0 0.5, V1 1 1, a0 2 0, a1 2 1, o0 3 0, o1 3 1, c 4 0, W 4 1, y 5 0",
)
graph.edge("V0", "o0", narrow=0.4)
graph.edge("V1", "o1", narrow=1.35)

graph.narrate(f"""
V: Forward. The values of two heads are side by side, four entries for each word.
V0 V1: Split: each head takes two neighbouring columns.
a0 a1: Each head has weights of its own for *chase*: {row(weights[0])} and {row(weights[1])}.
o0 o1: Two averages: {row(outputs[0])} and {row(outputs[1])}.
c: Merge: c = {row(c)}, as wide as the model.
W y: One matrix mixes them: y = c Wₒ = {row(y)}. The first head contributes {row(shares[0])},
    the second {row(shares[1])}.
y': Backward. The cotangent of y is {row(dy)}.
c' W': Through the matrix: c̄ = ȳ Wₒᵀ = {row(dc)}, and W̄ₒ = cᵀ ȳ.
o0' o1': Split again: the heads get {row(doutputs[0])} and {row(doutputs[1])}.
a0' a1': Each head's weights get their gradients, which go on to the queries of the stream
    that attends, and to the keys of the stream that is attended to.
V0' V1': Each head's values get its cotangent, times their weights.
V': Merged, these are the cotangents of all values.
""")
