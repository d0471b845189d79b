"""Learned positions: one table under two sentences, *cats chase* and *mice chase*."""

import numpy as np
from graphs import Graph, number, row

from book.sentence import EMBEDDING, TOKENS
from transformer_core.layers import LearnedPositions
from transformer_core.ops import embedding

ids = np.array([[0, 1], [2, 1]])
x, _ = embedding(ids, EMBEDDING)
layer = LearnedPositions(3, 4, np.random.default_rng(0), dtype=np.float64)
layer.table[...] = np.array([[1.0, 0, 0, -1], [0, 1, 0, 1], [0, 0, 1, 1]])
dy = np.array([[[1.0, 0, 2, -1], [0, 3, 1, 0]], [[2, 1, 0, 1], [0, -1, 0, 2]]])
y, cache = layer.forward(x)
dx, grads = layer.backward(dy, cache)
dtable = grads["table"]
length = ids.shape[1]
unread = np.zeros((len(dtable) - length, 4))
texts = ["*" + " ".join(TOKENS[i] for i in line) + "*" for line in ids]

graph = Graph("Learned positions under two sentences")
graph.node("p P", layer.table, dtable)
for b, name in enumerate("₀₁"):
    graph.node(f"X{b} X{name}", x[b], dx[b], rows=[TOKENS[i] for i in ids[b]])
    graph.node(f"Y{b} Y{name}", y[b], dy[b], of=f"X{b} p", by=lambda x, table: x + table[:length])
    graph.way(f"p<Y{b}", f"b = {b}", np.vstack([dy[b], unread]))
graph.place("p 0 1, X0 0 0, Y0 1 0, X1 0 2, Y1 1 2", narrow="p 1 0, Y0 0 1.2, X1 2 0, Y1 2 1.2")

graph.narrate(f"""
X0 X1: Forward. A batch of two sentences, {texts[0]} and {texts[1]}, with the rows of their words.
p: The table has one row for each of {len(dtable)} places.
Y0 Y1: Both sentences get row 0 and row 1. *chase* is at place 1 of both, and becomes
    {row(y[0, 1])} in both.
Y0' Y1': Backward. Each sentence has its own cotangents.
X0' X1': A sum passes them on to the words unchanged.
p<Y0: And to the table. From {texts[0]} its row 0 gets {row(dy[0, 0])}.
p<Y1: From {texts[1]} it gets {row(dy[1, 0])}.
p': The gradient is the sum over the batch: row 0 gets {row(dtable[0])}. No word was at place
    {length}: its row gets {number(np.abs(dtable[length:]).max())}.
""")
