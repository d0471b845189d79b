"""Attention for the query of *mice*, with a node for the log-sum-exp: the coupling comes back."""

from functools import partial

import numpy as np
from graphs import Graph, row

from book.sentence import KEY, QUERY, TOKENS, VALUE
from transformer_core.ops import tiled_attention, tiled_attention_backward

ln2 = np.log(2)
q = QUERY[2]
do = np.array([2.0, 1])
o, cache = tiled_attention(q[np.newaxis], KEY, VALUE, tile=1)
dq, dkey, dvalue = tiled_attention_backward(do[np.newaxis], cache)
o, dq, total = o[0], dq[0], cache.log_sum_exp
coupling = o @ do
s = q @ KEY.T / 2
a = np.exp(s - total)
da = VALUE @ do
ds = a * (da - coupling)

graph = Graph("Attention with its log-sum-exp: the query of *mice*, three keys, three values")
graph.node("q", q, dq, unit=("2 ln 2", 2 * ln2), hue="query")
graph.node("K", KEY, dkey, back_unit=("ln 2 / 7", ln2 / 7), hue="key", rows=TOKENS)
graph.node("V", VALUE, dvalue, hue="value-hue")
graph.node("s", s, ds, unit=("ln 2", ln2), of="q K", by=lambda q, key: q @ key.T / 2)
log_sum_exp = partial(np.logaddexp.reduce, keepdims=True)
graph.node("L λ", total, np.array([-coupling]), of="s", by=log_sum_exp)
graph.node("a", a, da, of="s L", by=lambda s, L: np.exp(s - L))
graph.node("o", o, do, of="a V", by=lambda a, value: a @ value)
graph.way("s<a", "by its own score", a * da)
graph.way("s<L", "by the sum of all", -coupling * a)
graph.place(
    "q 0 0, K 0 1, s 1 0, L 1 1, a 2 0, V 2 1, o 3 0",
    narrow="K 1 1, s 2 0, L 3 1, a 4 0, V 4 1, o 5 0",
)

graph.narrate(f"""
q K: Forward. The query of *mice*, and a key for every word.
s: Three scores, {row(s / ln2)} ln 2. A tile has some of them at a time.
L: One number of the row is kept: the logarithm of the sum of exponentials, ln 7.
a: From a score and λ its weight is one exponential away, in any tile: a = {row(a)}.
V o: The output is the average of the values, o = {row(o)}.
o': Backward. The cotangent of the output is ō = {row(do)}.
V': Each value gets ō, times its weight.
a': Each weight gets ⟨ō, v⟩: ā = {row(da)}.
L': The weights depend on λ, each with the slope −a: it gets −⟨ā, a⟩, the coupling −c. That is
    −⟨ō, o⟩ as well, so no sum over tiles is needed.
s<a s<L: A score acts on its own weight, and through λ on all.
s': The two terms together: s̄ = a ⊙ (ā − c) = {row(ds)}.
q' K': The rest is as it was.
""")
