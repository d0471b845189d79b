"""The smallest GPT: no layers, a table two wide, and *cats chase mice* as its text."""

import numpy as np
from graphs import Graph, row

from book.sentence import TOKENS
from transformer_core.ops import (
    cross_entropy,
    cross_entropy_backward,
    embedding,
    embedding_backward,
    tied_readout,
    tied_readout_backward,
)

r = np.sqrt(np.log(2))
unit, tenth, ln2 = ("√ln 2", r), ("√ln 2 / 10", r / 10), ("ln 2", np.log(2))
E = r * np.array([[1.0, 0], [0, 1], [1, 1]])
ids, targets = np.array([0, 1]), np.array([1, 2])

h, look_cache = embedding(ids, E)
z, read_cache = tied_readout(h, E, np.zeros(3))
loss, loss_cache = cross_entropy(z, targets)
dz = cross_entropy_backward(1.0, loss_cache)
dh, read_out, _ = tied_readout_backward(dz, read_cache)
look_up = embedding_backward(dh, look_cache)
two = TOKENS[:2]


def mean_surprise(z):
    return np.mean(np.log(np.exp(z).sum(axis=-1)) - z[np.arange(2), targets])


graph = Graph("The smallest GPT: two positions, two losses, one table")
graph.node("E", E, look_up + read_out, rows=TOKENS, unit=unit, back_unit=tenth)
graph.node("H", h, dh, of="E", by=lambda table: table[ids], rows=two, unit=unit, back_unit=tenth)
graph.node("Z", z, dz, of="H E", by=lambda h, table: h @ table.T, rows=two, unit=ln2)
graph.node("loss ℒ", loss, 1.0, of="Z", by=mean_surprise, exact=False)
graph.way("E<H", "look-up", look_up)
graph.way("E<Z", "output layer", read_out)
graph.place("E 0 0, H 1 1, Z 2 0, loss 3 0.5")

graph.narrate(f"""
E: Forward. One table, two wide, is used at both ends.
H: *cats* and *chase* are looked up. *mice* is an answer only.
Z: Each position scores all three words: z = {row(z / ln2[1])} ln 2.
loss: The answers are the next words, *chase* and *mice*: ℒ = (ln 5 + ln 5/2)/2.
loss': Backward. The cotangent of the loss is 1, and each position has half of it.
Z': Z̄ = {row(dz)}: half of p, and 1/2 less at the next word.
H': H̄ = Z̄ E.
E<H: First path, the look-up: h̄ goes to the rows of *cats* and *chase*.
E<Z: Second path, the output layer: every row gets each position's h, times its z̄.
E': The sum is the gradient of the table.
""")
