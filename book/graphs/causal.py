"""A causal head: the scores above the diagonal count for nothing, forward and backward."""

import numpy as np
from graphs import Graph, row

from transformer_core.ops import attention, attention_backward, causal_keep
from transformer_core.ops.softmax import softmax, softmax_backward
from transformer_core.sentence import KEY, QUERY, TOKENS, VALUE

ln2 = np.log(2)
keep = causal_keep(3)
do = np.array([[0.0, 0], [2, 1], [0, 0]])
o, cache = attention(QUERY, KEY, VALUE, keep)
dquery, dkey, dvalue = attention_backward(do, cache)
scores = QUERY @ KEY.T / 2
da = do @ VALUE.T
ds = softmax_backward(da, cache.softmax)

graph = Graph("A causal head: who may attend to whom", lanes=2)
graph.node(
    "S",
    "S",
    scores,
    ds,
    at=(0, 1),
    narrow=(0, 0),
    unit=("ln 2", ln2),
    back_unit=("1/25", 1 / 25),
)
graph.node("keep", "keep", keep.astype(int), at=(0, 0), narrow=(0, 1))
graph.node(
    "A",
    "A",
    cache.weights,
    da,
    at=(1, 1),
    narrow=(1, 0),
    of="S keep",
    by=lambda scores, keep: softmax(scores, keep.astype(bool))[0],
)
graph.node("V", "V", VALUE, dvalue, at=(1, 2), narrow=(1, 1), hue="value-hue")
graph.node(
    "O",
    "O",
    o,
    do,
    at=(2, 1),
    narrow=(2, 0),
    rows=TOKENS,
    of="A V",
    by=lambda a, value: a @ value,
)
graph.edge("keep", "A", narrow=0.8)

graph.step("Forward. The scores of the three queries, in units of ln 2.", "S")
graph.step("Row t may attend up to place t: 1 where it may.", "keep")
graph.step(
    "Softmax over what is kept: *cats* sees itself alone, *chase* has the weights "
    f"{row(cache.weights[1])}.",
    "A",
)
graph.step(
    f"The outputs are averages of the values so far. For *chase*: {row(o[1])}.",
    "V",
    "O",
)
graph.step(f"Backward. The loss reads *chase* alone: {row(do[1])}.", "O'")
graph.step(f"The value of *mice* was not read, and gets {row(dvalue[2])}.", "V'")
graph.step(f"The weights of *chase* are told {row(da[1])}, the hidden one too.", "A'")
graph.step(
    f"The scores are told {row(ds[1])}: a weight that is 0 passes nothing back, so the "
    "backward pass needs no mask.",
    "S'",
)
