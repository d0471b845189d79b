"""Learned positions: one table under two sentences, *cats chase* and *mice chase*."""

import numpy as np
from graphs import Graph, Way, number, row

from transformer_core.layers import LearnedPositions
from transformer_core.ops import embedding
from transformer_core.sentence import EMBEDDING, TOKENS

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

graph = Graph("Learned positions under two sentences", lanes=2)
graph.node(
    "P",
    "P",
    layer.table,
    dtable,
    at=(0, 1),
    narrow=(1, 0),
    ways=tuple(Way(f"Y{b}", f"b = {b}", np.vstack([dy[b], unread])) for b in range(2)),
)
for b, name in enumerate("₀₁"):
    graph.node(
        f"X{b}",
        f"X{name}",
        x[b],
        dx[b],
        at=(0, 2 * b),
        narrow=(2 * b, 0),
        rows=[TOKENS[i] for i in ids[b]],
    )
    graph.node(
        f"Y{b}",
        f"Y{name}",
        y[b],
        dy[b],
        at=(1, 2 * b),
        narrow=(2 * b, 1.2),
        of=f"X{b} P",
        by=lambda x, table: x + table[:length],
    )

graph.step(
    f"Forward. A batch of two sentences, {texts[0]} and {texts[1]}, with the rows of their words.",
    "X0",
    "X1",
)
graph.step(f"The table has one row for each of {len(dtable)} places.", "P")
graph.step(
    f"Both sentences get row 0 and row 1. *chase* stands at place 1 of both, and becomes "
    f"{row(y[0, 1])} in both.",
    "Y0",
    "Y1",
)
graph.step("Backward. Each sentence hands over its own cotangents.", "Y0'", "Y1'")
graph.step("A sum passes them on to the words as they are.", "X0'", "X1'")
graph.step(f"And to the table. From {texts[0]} its row 0 gets {row(dy[0, 0])}.", "P<Y0")
graph.step(f"From {texts[1]} it gets {row(dy[1, 0])}.", "P<Y1")
graph.step(
    f"The gradient is the sum over the batch: row 0 gets {row(dtable[0])}. Nobody stood at place "
    f"{length}: its row gets {number(np.abs(dtable[length:]).max())}.",
    "P'",
)
