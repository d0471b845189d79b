"""Two decoder layers ask one encoded source: through the values, and through the scores."""

import numpy as np
from graphs import Graph, number, row

from transformer_core.ops import softmax, softmax_backward

ln2 = np.log(2)
v = np.array([4.0, 2, 0])
scores = ln2 * np.array([2.0, 0, 1]), ln2 * np.array([0.0, 1, 0])
dos = 7.0, 4.0
weights = [softmax(s) for s in scores]
outputs = [a @ v for a, _ in weights]
dscores = [softmax_backward(v * do, cache) for (_, cache), do in zip(weights, dos, strict=True)]
dvalues = [a * do for (a, _), do in zip(weights, dos, strict=True)]

graph = Graph("Two layers of a decoder attend to one source")
for m in range(2):
    n = "₁₂"[m]
    graph.node(f"s{m} s{n}", scores[m], dscores[m], hue="key")
graph.node("v", v, sum(dvalues), hue="value-hue")
for m in range(2):
    n = "₁₂"[m]
    graph.node(f"a{m} a{n}", weights[m][0], v * dos[m], of=f"s{m}", by=lambda s: softmax(s)[0])
    graph.node(f"o{m} o{n}", outputs[m], dos[m], of=f"a{m} v", by=lambda a, v: a @ v)
    graph.way(f"v<o{m}", f"layer {m + 1}", dvalues[m])
    graph.edge(f"a{m}", f"o{m}", narrow=1.6 * m - 0.3)
graph.place(
    "s0 0 0, s1 0 2, v 1 1, a0 1 0, o0 2 0, a1 1 2, o1 2 2",
    narrow="s1 0 1, v 2 0.5, o0 3 0, a1 1 1, o1 3 1",
)

graph.narrate(f"""
s0 s1: Forward. Each layer scores the three words of the source by their keys.
a0 a1: Two rows of weights: {row(weights[0][0])} and {row(weights[1][0])}.
v o0 o1: Both average the same values, one number for each word: {number(outputs[0])} and
    {number(outputs[1])}.
o0' o1': Backward. The outputs have the cotangents {number(dos[0])} and {number(dos[1])}.
v<o0: The first layer sends {row(dvalues[0])} to the values.
v<o1: The second sends {row(dvalues[1])}.
v': One array with two uses: v̄ = {row(sum(dvalues))}, the sum.
a0' a1': The weights get the values, times the cotangent.
s0' s1': Through softmax: {row(dscores[0])} and {row(dscores[1])}. From here the gradient goes
    on to the keys.
""")
