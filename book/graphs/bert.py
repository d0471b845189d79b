"""The smallest masked model: *cats mice mice*, with *chase* to be restored in the middle."""

import numpy as np
from graphs import Graph, number, row

from book.sentence import EMBEDDING, TOKENS
from transformer_core.ops import (
    cross_entropy,
    cross_entropy_backward,
    embedding,
    embedding_backward,
    tied_readout,
    tied_readout_backward,
)

ln2 = np.log(2)
h = ln2 * np.array([-1 / 2, 0, 1 / 2, -3 / 4])
seen, target = 2, 1
looked_up, look_cache = embedding(np.array(seen), EMBEDDING)
position = h - looked_up
z, read_cache = tied_readout(h, EMBEDDING, np.zeros(3))
loss, loss_cache = cross_entropy(z[np.newaxis], np.array([target]))
dz = cross_entropy_backward(1.0, loss_cache)[0]
dh, read_out, _ = tied_readout_backward(dz, read_cache)
look_up = embedding_backward(dh, look_cache)
p = loss_cache.p[0]

graph = Graph("A tied output layer: the table receives two terms")
graph.node("E", EMBEDDING, look_up + read_out, rows=TOKENS, exact=False)
graph.node("P P₁", position, dh, exact=False)
graph.node("h h₁", h, dh, unit=("ln 2", ln2), of="E P", by=lambda table, p: table[seen] + p)
graph.node("z", z, dz, unit=("ln 2", ln2), of="h E", by=lambda h, table: table @ h)
graph.node("loss ℒ", loss, 1.0, of="z", by=lambda z: np.log(np.exp(z).sum()) - z[target])
graph.way("E<h", "look-up", look_up)
graph.way("E<z", "output layer", read_out)
graph.place("E 0 0, P 1 0, h 1 1.1, z 1 2.2, loss 1 3.2", narrow="P 1 1, h 2 1, z 3 0, loss 4 0")
graph.edge("E", "z", narrow=-0.25)
graph.edge("E", "h", narrow=0.0)

graph.narrate(f"""
E: Forward. One table is used at both ends.
P h: The middle of the sentence shows *mice*: its row plus the row of the position is h₁ =
    {row(h / ln2)} ln 2.
z: The logits come from the same table: z = {row(z)}, p = {row(p)}.
loss: The word was *chase*: ℒ = −ln {number(p[target])} = {number(loss)}.
loss': Backward. The cotangent of the loss is 1.
z': z̄ = {row(dz)}: p, and 1 less at *chase*.
h' P': h̄₁ = z̄ E = {row(dh)}, and the position gets the same.
E<h: First term, the look-up: h̄₁ goes to the row of *mice*, the word that was seen there.
E<z: Second term, the output layer: every row gets h₁, times its z̄.
E': The gradient of the table is the sum. *mice* has two terms; *chase*, the
    answer, has only that of the output layer.
""")
