"""Attention for the query of *chase*: scores, weights, output, and the five lines back."""

import numpy as np
from graphs import Graph, row

from transformer_core.ops import (
    attention,
    attention_backward,
    softmax,
    softmax_backward,
)
from transformer_core.sentence import KEY, QUERY, TOKENS, VALUE

ln2 = np.log(2)
q = QUERY[1]
do = np.array([2.0, 1])
o, cache = attention(q[np.newaxis], KEY, VALUE)
dq, dkey, dvalue = attention_backward(do[np.newaxis], cache)
o, dq, a = o[0], dq[0], cache.weights[0]
s = q @ KEY.T / 2
da = VALUE @ do
ds = softmax_backward(da, cache.softmax._replace(weights=a))

graph = Graph("Attention: the query of *chase*, three keys, three values", lanes=2)
graph.node("q", "q", q, dq, at=(0, 0), unit=("2 ln 2", 2 * ln2), hue="query")
graph.node(
    "K",
    "K",
    KEY,
    dkey,
    at=(0, 1),
    narrow=(1, 1),
    back_unit=("ln 2 / 7", ln2 / 7),
    hue="key",
    rows=TOKENS,
)
graph.node("V", "V", VALUE, dvalue, at=(2, 1), narrow=(3, 1), hue="value-hue")
graph.node(
    "s",
    "s",
    s,
    ds,
    at=(1, 0),
    narrow=(2, 0),
    unit=("ln 2", ln2),
    of="q K",
    by=lambda q, key: q @ key.T / 2,
)
graph.node(
    "a", "a", a, da, at=(2, 0), narrow=(3, 0), of="s", by=lambda s: softmax(s)[0]
)
graph.node(
    "o", "o", o, do, at=(3, 0), narrow=(4, 0), of="a V", by=lambda a, value: a @ value
)
graph.edge("q", "s", narrow=-0.1)

graph.step("Forward. *chase* asks with its query q, in units of 2 ln 2.", "q")
graph.step("Every word has a key.", "K")
graph.step(f"Scores: s = q Kᵀ / √4 = {row(s / ln2)} ln 2.", "s")
graph.step(f"Softmax turns them into the weights a = {row(a)}.", "a")
graph.step(
    f"Every word has a value, and the output is their average: o = {row(o)}.", "V", "o"
)
graph.step(f"Backward. The loss hands over ō = {row(do)}.", "o'")
graph.step("First line: V̄ = aᵀ ō. Each value gets ō, as much as it was read.", "V'")
graph.step(f"Second line: ā = ō Vᵀ = {row(da)}.", "a'")
graph.step(
    f"Third line: s̄ = a ⊙ (ā − ⟨ā, a⟩) = {row(ds)}. Only the score of *cats* raises the loss.",
    "s'",
)
graph.step(f"Fourth line: q̄ = s̄ K / √4 = {row(dq)}.", "q'")
graph.step(
    f"Fifth line: K̄ = s̄ᵀ q / √4. The key of *cats* gets {row(dkey[0] / ln2)} ln 2, along the "
    "query; the other two get it with the other sign.",
    "K'",
)
