"""The linear layer: one matrix for the three words."""

import numpy as np
from graphs import Graph, number, row

from transformer_core.ops import linear, linear_backward
from transformer_core.sentence import EMBEDDING, TOKENS

weight = np.array([[1.0, 0], [0, 1], [1, -1], [0, 1]])
bias = np.array([-1.0, 2])
dy = np.array([[1.0, 0], [0, 1], [1, -1]])
y, cache = linear(EMBEDDING, weight, bias)
dx, dweight, dbias = linear_backward(dy, cache)
wishes = EMBEDDING[:, 2] * dy[:, 1]

graph = Graph("The linear layer on *cats chase mice*", lanes=2)
graph.node("b", "b", bias, dbias, at=(0, 0), narrow=(0, 1))
graph.node("W", "W", weight, dweight, at=(1, 0), narrow=(1, 1))
graph.node("X", "X", EMBEDDING, dx, at=(0, 1), narrow=(0, 0), rows=TOKENS)
graph.node(
    "Y",
    "Y",
    y,
    dy,
    at=(1, 1),
    narrow=(2, 0),
    rows=TOKENS,
    of="X W b",
    by=lambda x, weight, bias: x @ weight + bias,
)

graph.step("Forward. Three words, one row each.", "X")
graph.step("One matrix and one bias for all of them.", "W", "b")
graph.step(
    f"A row of X meets the columns of W. For *cats*: {row(EMBEDDING[0] @ weight)}, and with b = "
    f"{row(bias)} the output {row(y[0])}.",
    "Y",
)
graph.step("Backward. Each word has a cotangent of its own.", "Y'")
graph.step(
    f"X̄ = Ȳ Wᵀ, row by row: *cats* gets {row(dx[0])}. No word hears of another.", "X'"
)
graph.step(
    "W̄ = Xᵀ Ȳ, a sum over the words. To the third row and second column *chase* adds "
    f"{number(wishes[1])} and *mice* {number(wishes[2])}: together {number(dweight[2, 1])}.",
    "W'",
)
graph.step(f"The bias adds up the rows of Ȳ: b̄ = {row(dbias)}.", "b'")
