"""Rotary positions for the query of *chase*: turned, scored against turned keys, and back."""

import numpy as np
from graphs import Graph, row

from book.sentence import KEY, QUERY, TOKENS
from transformer_core.ops import rotary, rotary_backward

ln2 = np.log(2)
frequencies = np.array([np.pi / 2, np.arctan2(3, 4)])
first, everywhere = np.array([1]), np.arange(3)


def turned(rows, positions):
    return rotary(np.atleast_2d(rows), positions, frequencies)[0]


q = QUERY[1]
u, query_cache = rotary(q[np.newaxis], first, frequencies)
w, key_cache = rotary(KEY, everywhere, frequencies)
u, w = u[0].round(12), w.round(12)
s = u @ w.T / 2
ds = np.array([-10.0, 10, 0])
du, dw = ds @ w / 2, np.outer(ds, u) / 2
dq = rotary_backward(du[np.newaxis], query_cache)[0]
dkey = rotary_backward(dw, key_cache)

graph = Graph("Rotary positions: the query of *chase*, three keys")
graph.node("q", q, dq, unit=("2 ln 2", 2 * ln2), hue="query")
graph.node("K", KEY, dkey, back_unit=("ln 2", ln2), hue="key", rows=TOKENS)
graph.node(
    "u", u, du, unit=("2 ln 2", 2 * ln2), hue="query", of="q", by=lambda q: turned(q, first)[0]
)
graph.node(
    "w", w, dw, back_unit=("ln 2", ln2), hue="key", of="K", by=lambda key: turned(key, everywhere)
)
graph.node("s", s, ds, unit=("ln 2", ln2), of="u w", by=lambda u, w: u @ w.T / 2)
graph.place("q 0 0, K 0 1, u 1 0, w 1 1, s 2 0.5", narrow="K 2 0.5, w 3 0.5, s 4 0.5")
graph.edge("u", "s", narrow=0)

graph.narrate(f"""
q: Forward. The query of *chase*, in units of 2 ln 2, has two pairs: (2, 0) and (1, 0).
u: *chase* stands at position 1. Its first pair is turned by a quarter of a circle, its second by
    the angle of cosine 4/5 and sine 3/5.
K: Three keys, at the positions 0, 1 and 2.
w: Each is turned by its own position: *cats* not at all, *chase* once, *mice* twice.
s: Scores, as ever: s = u wᵀ / √4 = {row(s / ln2)} ln 2.
s': Backward. The scores have the cotangent s̄ = {row(ds)}.
u': As in attention, ū = s̄ w / √4 = {row(du)}.
q': Turned back by position 1: q̄ = {row(dq)}.
w': Every turned key gets its score's cotangent times u / √4.
K': Each is turned back by its own position. The key of *chase* gets {row(dkey[1] / ln2)} ln 2, a
    multiple of the query: their distance is 0.
""")
