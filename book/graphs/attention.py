"""Attention for the query of *chase*: scores, weights, output, and the five lines back."""

import numpy as np
from graphs import Graph, row

from book.sentence import KEY, QUERY, TOKENS, VALUE
from transformer_core.ops import attention, attention_backward, softmax, softmax_backward

ln2 = np.log(2)
q = QUERY[1]
do = np.array([2.0, 1])
o, cache = attention(q[np.newaxis], KEY, VALUE)
dq, dkey, dvalue = attention_backward(do[np.newaxis], cache)
o, dq, a = o[0], dq[0], cache.weights[0]
s = q @ KEY.T / 2
da = VALUE @ do
ds = softmax_backward(da, cache.softmax._replace(weights=a))

graph = Graph("Attention: the query of *chase*, three keys, three values")
graph.node("q", q, dq, unit=("2 ln 2", 2 * ln2), hue="query")
graph.node("K", KEY, dkey, back_unit=("ln 2 / 7", ln2 / 7), hue="key", rows=TOKENS)
graph.node("V", VALUE, dvalue, hue="value-hue")
graph.node("s", s, ds, unit=("ln 2", ln2), of="q K", by=lambda q, key: q @ key.T / 2)
graph.node("a", a, da, of="s", by=lambda s: softmax(s)[0])
graph.node("o", o, do, of="a V", by=lambda a, value: a @ value)
graph.place("q 0 0, K 0 1, V 2 1, s 1 0, a 2 0, o 3 0", narrow="K 1 1, V 3 1, s 2 0, a 3 0, o 4 0")
graph.edge("q", "s", narrow=-0.1)

graph.narrate(f"""
q: Forward. The query q of *chase*, in units of 2 ln 2.
K: Every word has a key.
s: Scores: s = q Kᵀ / √4 = {row(s / ln2)} ln 2.
a: Softmax turns them into the weights a = {row(a)}.
V o: Every word has a value, and the output is their average: o = {row(o)}.
o': Backward. The cotangent of the output is ō = {row(do)}.
V': First line: V̄ = aᵀ ō. Each value gets ō, times its weight.
a': Second line: ā = ō Vᵀ = {row(da)}.
s': Third line: s̄ = a ⊙ (ā − ⟨ā, a⟩) = {row(ds)}. Only a higher score of *cats* raises the loss.
q': Fourth line: q̄ = s̄ K / √4 = {row(dq)}.
K': Fifth line: K̄ = s̄ᵀ q / √4. The key of *cats* gets {row(dkey[0] / ln2)} ln 2, along the query;
    the other two get it with the other sign.
""")
