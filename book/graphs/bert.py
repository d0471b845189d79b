"""The smallest masked model: *cats mice mice*, with *chase* to be restored in the middle."""

import numpy as np
from graphs import Graph, Way, number, row

from transformer_core.ops import (
    cross_entropy,
    cross_entropy_backward,
    embedding,
    embedding_backward,
    tied_readout,
    tied_readout_backward,
)
from transformer_core.sentence import EMBEDDING, TOKENS

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

graph = Graph("A tied read-out: the table receives two terms", lanes=2)
graph.node(
    "E",
    "E",
    EMBEDDING,
    look_up + read_out,
    at=(0, 0),
    rows=TOKENS,
    exact=False,
    ways=(Way("h", "look-up", look_up), Way("z", "read-out", read_out)),
)
graph.node("P", "P₁", position, dh, at=(1, 0), narrow=(1, 1), exact=False)
graph.node(
    "h",
    "h₁",
    h,
    dh,
    at=(1, 1.1),
    narrow=(2, 1),
    unit=("ln 2", ln2),
    of="E P",
    by=lambda table, p: table[seen] + p,
)
graph.node(
    "z",
    "z",
    z,
    dz,
    at=(1, 2.2),
    unit=("ln 2", ln2),
    narrow=(3, 0),
    of="h E",
    by=lambda h, table: table @ h,
)
graph.node(
    "loss",
    "ℒ",
    loss,
    1.0,
    at=(1, 3.2),
    narrow=(4, 0),
    of="z",
    by=lambda z: np.log(np.exp(z).sum()) - z[target],
)
graph.edge("E", "z", narrow=-0.25)
graph.edge("E", "h", narrow=0.0)

graph.step("Forward. One table for both ends.", "E")
graph.step(
    "The middle of the sentence shows *mice*: its row plus the row of the position is "
    f"h₁ = {row(h / ln2)} ln 2.",
    "P",
    "h",
)
graph.step(f"Read out with the same table: z = {row(z)}, p = {row(p)}.", "z")
graph.step(
    f"The word was *chase*: ℒ = −ln {number(p[target])} = {number(loss)}.", "loss"
)
graph.step("Backward. The loss is the end: its cotangent is 1.", "loss'")
graph.step(f"z̄ = {row(dz)}: p, and 1 less at *chase*.", "z'")
graph.step(f"h̄₁ = z̄ E = {row(dh)}, and the position gets the same.", "h'", "P'")
graph.step(
    "First term, the look-up: h̄₁ goes to the row of *mice*, which stood there.", "E<h"
)
graph.step("Second term, the read-out: every row gets h₁, times its z̄.", "E<z")
graph.step(
    "The table gets the sum. *mice* has two terms; *chase*, the answer, has only that of the "
    "read-out.",
    "E'",
)
