"""The linear layer: one matrix for the three words."""

import numpy as np
from graphs import Graph, number, row

from book.sentence import EMBEDDING, TOKENS
from transformer_core.ops import linear, linear_backward

weight = np.array([[1.0, 0], [0, 1], [1, -1], [0, 1]])
bias = np.array([-1.0, 2])
dy = np.array([[1.0, 0], [0, 1], [1, -1]])
y, cache = linear(EMBEDDING, weight, bias)
dx, dweight, dbias = linear_backward(dy, cache)
wishes = EMBEDDING[:, 2] * dy[:, 1]

graph = Graph("The linear layer on *cats chase mice*")
graph.node("b", bias, dbias)
graph.node("W", weight, dweight)
graph.node("X", EMBEDDING, dx, rows=TOKENS)
graph.node("Y", y, dy, rows=TOKENS, of="X W b", by=lambda x, weight, bias: x @ weight + bias)
graph.place("b 0 0, W 1 0, X 0 1, Y 1 1", narrow="b 0 1, W 1 1, X 0 0, Y 2 0")

graph.narrate(f"""
X: Forward. Three words, one row each.
W b: One matrix and one bias for all of them.
Y: A row of X meets the columns of W. For *cats*: {row(EMBEDDING[0] @ weight)}, and with b =
    {row(bias)} the output {row(y[0])}.
Y': Backward. Each word has a cotangent of its own.
X': X̄ = Ȳ Wᵀ, row by row: *cats* gets {row(dx[0])}. It does not depend on the other words.
W': W̄ = Xᵀ Ȳ, a sum over the words. In the third row and second column *chase* adds
    {number(wishes[1])} and *mice* {number(wishes[2])}: together {number(dweight[2, 1])}.
b': The bias adds up the rows of Ȳ: b̄ = {row(dbias)}.
""")
