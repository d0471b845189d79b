"""The look-up *mice chase mice*: a row that is read twice gets two cotangents."""

import numpy as np
from graphs import Graph, Way, row

from transformer_core.ops import embedding, embedding_backward
from transformer_core.sentence import EMBEDDING, TOKENS

ids = np.array([2, 1, 2])
drows = np.array([[1.0, 0, 2, -1], [0, 3, 1, 0], [2, 1, 0, 1]])
rows, cache = embedding(ids, EMBEDDING)
dtable = embedding_backward(drows, cache)
places = {v: [n for n in range(3) if ids[n] == v] for v in range(3)}

graph = Graph("Looking up *mice chase mice*", lanes=2)
for v, word in enumerate(TOKENS):
    ways = [
        Way(f"x{n}", f"place {n}", drows[n]) for n in places[v] if len(places[v]) > 1
    ]
    graph.node(
        f"E{v}",
        f"E{'₀₁₂'[v]} {word}",
        EMBEDDING[v],
        dtable[v],
        at=(0, v),
        narrow=(v, -0.2),
        ways=tuple(ways),
        back=f"Ē{'₀₁₂'[v]}",
    )
for n, v in enumerate(ids):
    graph.node(
        f"x{n}",
        f"x{'₀₁₂'[n]}",
        rows[n],
        drows[n],
        at=(1, n),
        narrow=(n, 1.2),
        of=f"E{v}",
        by=np.copy,
    )

graph.step(
    "Forward. The table has one row for each word of the vocabulary.", "E0", "E1", "E2"
)
graph.step(
    f"The ids {row(ids)} look up three rows. *mice* is read twice, *cats* not at all.",
    "x0",
    "x1",
    "x2",
)
graph.step("Backward. Each place hands over a cotangent.", "x0'", "x1'", "x2'")
graph.step(f"*chase* was read once: its row gets {row(dtable[1])}.", "E1'")
graph.step(
    f"*mice* was read at two places, and gets {row(drows[0])} from one and {row(drows[2])} from "
    "the other.",
    "E2<x0",
    "E2<x2",
)
graph.step(
    f"The two add up to {row(dtable[2])}. An assignment would keep one of them.", "E2'"
)
graph.step(f"*cats* was not read, and nothing comes back: {row(dtable[0])}.", "E0'")
