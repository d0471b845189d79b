"""One table used twice: *chase* is looked up, and read out with the same table."""

import numpy as np
from graphs import Graph, row

from book.sentence import EMBEDDING, TOKENS
from transformer_core.ops import embedding, embedding_backward, tied_readout, tied_readout_backward

h, looked_up = embedding(np.array(1), EMBEDDING)
z, cache = tied_readout(h, EMBEDDING, np.zeros(3))
dz = np.array([1.0, -1, 2])
dh, read_out, _ = tied_readout_backward(dz, cache)
look_up = embedding_backward(dh, looked_up)

graph = Graph("One table at both ends: *chase* looked up, and in the output layer")
graph.node("E", EMBEDDING, look_up + read_out, rows=TOKENS)
graph.node("h", h, dh, of="E", by=lambda table: table[1])
graph.node("z", z, dz, of="h E", by=lambda h, table: table @ h)
graph.way("E<h", "look-up", look_up)
graph.way("E<z", "output layer", read_out)
graph.place("E 0 0, h 1 0.9, z 2 0", narrow="h 1 0, z 2 1")

graph.narrate(f"""
E: Forward. The table, one row for each word.
h: Row 1 is looked up: h = {row(h)}.
z: The logits are its inner products with all three rows: z = {row(z)}.
z': Backward. The cotangent of the logits is {row(dz)}.
h': h̄ = z̄ E = {row(dh)}.
E<h: First path, through the look-up: h̄ goes to the row that was read.
E<z: Second path, through the output layer: every row gets h, times its z̄.
E': A parameter's gradient is the sum over its uses. The row of *chase* gets
    {row(look_up[1] + read_out[1])}.
""")
