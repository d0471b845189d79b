"""A causal head: the scores above the diagonal have no effect, forward or backward."""

import numpy as np
from graphs import Graph, row

from book.sentence import KEY, QUERY, TOKENS, VALUE
from transformer_core.ops import attention, attention_backward, causal_keep
from transformer_core.ops.softmax import softmax, softmax_backward

ln2 = np.log(2)
keep = causal_keep(3)
do = np.array([[0.0, 0], [2, 1], [0, 0]])
o, cache = attention(QUERY, KEY, VALUE, keep)
dquery, dkey, dvalue = attention_backward(do, cache)
scores = QUERY @ KEY.T / 2
da = do @ VALUE.T
ds = softmax_backward(da, cache.softmax)

graph = Graph("A causal head: who may attend to whom")
graph.node("S", scores, ds, unit=("ln 2", ln2), back_unit=("1/25", 1 / 25))
graph.node("keep", keep.astype(int))
graph.node("A", cache.weights, da, of="S keep", by=lambda s, keep: softmax(s, keep == 1)[0])
graph.node("V", VALUE, dvalue, hue="value-hue")
graph.node("O", o, do, rows=TOKENS, of="A V", by=lambda a, value: a @ value)
graph.place("S 0 1, keep 0 0, A 1 1, V 1 2, O 2 1", narrow="S 0 0, keep 0 1, A 1 0, V 1 1, O 2 0")
graph.edge("keep", "A", narrow=0.8)

graph.narrate(f"""
S: Forward. The scores of the three queries, in units of ln 2.
keep: Position t may attend to positions up to t: 1 where it may.
A: Softmax over what is kept: *cats* attends only to itself, *chase* has the weights
    {row(cache.weights[1])}.
V O: The outputs are averages of the values so far. For *chase*: {row(o[1])}.
O': Backward. The loss depends on *chase* alone: {row(do[1])}.
V': The value of *mice* was not read, and gets {row(dvalue[2])}.
A': The weights of *chase* get {row(da[1])}, the hidden one too.
S': The scores get {row(ds[1])}: a weight that is 0 passes nothing back, so the backward pass
    needs no mask.
""")
