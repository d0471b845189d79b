"""Two decoder layers ask one encoded source: through the values, and through the scores."""

import numpy as np
from graphs import Graph, Way, number, row

from transformer_core.ops import softmax, softmax_backward

ln2 = np.log(2)
v = np.array([4.0, 2, 0])
scores = ln2 * np.array([2.0, 0, 1]), ln2 * np.array([0.0, 1, 0])
dos = 7.0, 4.0
weights = [softmax(s) for s in scores]
outputs = [a @ v for a, _ in weights]
dscores = [
    softmax_backward(v * do, cache) for (_, cache), do in zip(weights, dos, strict=True)
]
dvalues = [a * do for (a, _), do in zip(weights, dos, strict=True)]

graph = Graph("Two layers of a decoder ask one source", lanes=2)
for m in range(2):
    n = "₁₂"[m]
    graph.node(
        f"s{m}", f"s{n}", scores[m], dscores[m], at=(0, 2 * m), narrow=(0, m), hue="key"
    )
graph.node(
    "v",
    "v",
    v,
    sum(dvalues),
    at=(1, 1),
    narrow=(2, 0.5),
    hue="value-hue",
    ways=tuple(Way(f"o{m}", f"layer {m + 1}", dvalues[m]) for m in range(2)),
)
for m in range(2):
    n = "₁₂"[m]
    graph.node(
        f"a{m}",
        f"a{n}",
        weights[m][0],
        v * dos[m],
        at=(1, 2 * m),
        narrow=(1, m),
        of=f"s{m}",
        by=lambda s: softmax(s)[0],
    )
    graph.node(
        f"o{m}",
        f"o{n}",
        outputs[m],
        dos[m],
        at=(2, 2 * m),
        narrow=(3, m),
        of=f"a{m} v",
        by=lambda a, v: a @ v,
    )
    graph.edge(f"a{m}", f"o{m}", narrow=1.6 * m - 0.3)

graph.step(
    "Forward. Each layer scores the three words of the source by their keys.",
    "s0",
    "s1",
)
graph.step(
    f"Two rows of weights: {row(weights[0][0])} and {row(weights[1][0])}.", "a0", "a1"
)
graph.step(
    f"Both average the same values, one number a word: {number(outputs[0])} and "
    f"{number(outputs[1])}.",
    "v",
    "o0",
    "o1",
)
graph.step(
    f"Backward. The answers have the cotangents {number(dos[0])} and {number(dos[1])}.",
    "o0'",
    "o1'",
)
graph.step(f"The first layer sends {row(dvalues[0])} to the values.", "v<o0")
graph.step(f"The second sends {row(dvalues[1])}.", "v<o1")
graph.step(
    f"One array with two uses: v̄ = {row(sum(dvalues))}. That is what to say.", "v'"
)
graph.step("The weights are told the values, times the cotangent.", "a0'", "a1'")
graph.step(
    f"Through softmax: {row(dscores[0])} and {row(dscores[1])}. From here it goes on to the "
    "keys: how to be found.",
    "s0'",
    "s1'",
)
