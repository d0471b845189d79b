"""Two heads of queries at *chase* that share their keys and values: two terms come back."""

import numpy as np
from graphs import Graph, row

from book.sentence import KEY, QUERY, TOKENS, VALUE
from transformer_core.ops import attention, attention_backward

ln2 = np.log(2)
query = QUERY[[1, 0]]  # of the head 0, and of head 1
doutput = np.array([[14.0, 7], [4, 0]])
shared = KEY[np.newaxis, np.newaxis], VALUE[np.newaxis, np.newaxis]
output, cache = attention(query[np.newaxis, :, np.newaxis], *shared)
dquery, dkey, dvalue = attention_backward(doutput[np.newaxis, :, np.newaxis], cache)
dkey, dvalue = dkey[0, 0].round(12), dvalue[0, 0].round(12)
alone = [
    attention_backward(do[np.newaxis], attention(q[np.newaxis], KEY, VALUE)[1])
    for q, do in zip(query, doutput, strict=True)
]


def attend(q, key, value):
    return attention(q[np.newaxis], key, value)[0][0]


graph = Graph("Two heads of queries, one of keys and values, at *chase*")
graph.node("K", KEY, dkey, back_unit=("ln 2", ln2), hue="key", rows=TOKENS)
graph.node("V", VALUE, dvalue, hue="value-hue", rows=TOKENS)
for h, name in enumerate("⁰¹"):
    graph.node(f"q{h} q{name}", query[h], dquery[0, h, 0], unit=("2 ln 2", 2 * ln2), hue="query")
    graph.node(f"o{h} o{name}", output[0, h, 0], doutput[h], of=f"q{h} K V", by=attend)
    graph.way(f"K<o{h}", f"head {h}", alone[h][1].round(12))
    graph.way(f"V<o{h}", f"head {h}", alone[h][2].round(12))
graph.place(
    "q0 0 0, q1 0 1, K 1 0.5, V 2 0.5, o0 3 0, o1 3 1",
    narrow="q0 0 0.5, q1 1 0.5, K 2 0.5, V 3 0.5, o0 4 0, o1 4 1",
)

graph.narrate(f"""
q0 q1: Forward. At *chase* two heads ask: head 0 with the query of the chapter on attention,
    head 1 with another.
K V: Both look at the same three keys and read the same three values.
o0 o1: Each has its own weights, and so its own average: {row(output[0, 0, 0])} and
    {row(output[0, 1, 0])}.
o0' o1': Backward. The heads have the cotangents {row(doutput[0])} and {row(doutput[1])}.
V<o0 K<o0: Head 0 sends values and keys what it sends in attention.
V<o1 K<o1: So does head 1.
V' K': What is read twice gets the sum of both.
q0' q1': A query is read by its own head alone.
""")
