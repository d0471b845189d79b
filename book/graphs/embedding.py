"""The look-up *mice chase mice*: a row that is read twice gets two cotangents."""

import numpy as np
from graphs import Graph, row

from book.sentence import EMBEDDING, TOKENS
from transformer_core.ops import embedding, embedding_backward

ids = np.array([2, 1, 2])
drows = np.array([[1.0, 0, 2, -1], [0, 3, 1, 0], [2, 1, 0, 1]])
rows, cache = embedding(ids, EMBEDDING)
dtable = embedding_backward(drows, cache)
places = {v: [n for n in range(3) if ids[n] == v] for v in range(3)}

graph = Graph("Looking up *mice chase mice*")
for v, word in enumerate(TOKENS):
    graph.node(f"E{v} E{'₀₁₂'[v]} {word}", EMBEDDING[v], dtable[v], back=f"Ē{'₀₁₂'[v]}")
for n, v in enumerate(ids):
    graph.node(f"x{n} x{'₀₁₂'[n]}", rows[n], drows[n], of=f"E{v}", by=np.copy)
    if len(places[v]) > 1:
        graph.way(f"E{v}<x{n}", f"place {n}", drows[n])
graph.place(
    "E0 0 0, E1 0 1, E2 0 2, x0 1 0, x1 1 1, x2 1 2",
    narrow="E0 0 -0.2, E1 1 -0.2, E2 2 -0.2, x0 0 1.2, x1 1 1.2, x2 2 1.2",
)

graph.narrate(f"""
E0 E1 E2: Forward. The table has one row for each word of the vocabulary.
x0 x1 x2: The ids {row(ids)} look up three rows. *mice* is read twice, *cats* not at all.
x0' x1' x2': Backward. Each place has a cotangent.
E1': *chase* was read once: its row gets {row(dtable[1])}.
E2<x0 E2<x2: *mice* was read at two places, and gets {row(drows[0])} from one and {row(drows[2])}
    from the other.
E2': The two add up to {row(dtable[2])}. An assignment would keep one of them.
E0': *cats* was not read, and gets no gradient: {row(dtable[0])}.
""")
