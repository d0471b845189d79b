"""One table used twice: *chase* is looked up, and read out with the same table."""

import numpy as np
from graphs import Graph, Way, row

from transformer_core.ops import (
    embedding,
    embedding_backward,
    tied_readout,
    tied_readout_backward,
)
from transformer_core.sentence import EMBEDDING, TOKENS

h, looked_up = embedding(np.array(1), EMBEDDING)
z, cache = tied_readout(h, EMBEDDING, np.zeros(3))
dz = np.array([1.0, -1, 2])
dh, read_out, _ = tied_readout_backward(dz, cache)
look_up = embedding_backward(dh, looked_up)

graph = Graph("One table at both ends: *chase* looked up and read out", lanes=2)
graph.node(
    "E",
    "E",
    EMBEDDING,
    look_up + read_out,
    at=(0, 0),
    rows=TOKENS,
    ways=(Way("h", "look-up", look_up), Way("z", "read-out", read_out)),
)
graph.node(
    "h", "h", h, dh, at=(1, 0.9), narrow=(1, 0), of="E", by=lambda table: table[1]
)
graph.node(
    "z", "z", z, dz, at=(2, 0), narrow=(2, 1), of="h E", by=lambda h, table: table @ h
)

graph.step("Forward. The table, one row a word.", "E")
graph.step(f"Row 1 is looked up: h = {row(h)}.", "h")
graph.step(f"The logits are its inner products with all three rows: z = {row(z)}.", "z")
graph.step(f"Backward. The cotangent of the logits is {row(dz)}.", "z'")
graph.step(f"h̄ = z̄ E = {row(dh)}.", "h'")
graph.step("First way, through the look-up: h̄ goes to the row that was read.", "E<h")
graph.step("Second way, through the read-out: every row gets h, times its z̄.", "E<z")
graph.step(
    f"A parameter's gradient is the sum over its uses. The row of *chase* gets "
    f"{row(look_up[1] + read_out[1])}.",
    "E'",
)
