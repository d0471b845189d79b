"""Scores, and scores that are all less by the largest, have the same weights."""

import numpy as np
from graphs import number, row
from margin_figures import Sketch

from transformer_core.ops import softmax

scores = np.array([2.0, 0, 1]) * np.log(2)
shifted = scores - scores.max()
weights, cache = softmax(shifted)
places = np.arange(3)

sketch = Sketch(x=(-0.5, 10.5), y=(-1.45, 2), height=92)
for left, values, hue, name in (
    (0, scores, "sky", "*x*"),
    (4, shifted, "sky", "*x* − max"),
    (8, weights, "blue", "*a*"),
):
    for x, value in zip(left + places, values, strict=True):
        sketch.bar(x, value, 0.7, hue)
    sketch.thin([left - 0.5, left + 2.5], [0, 0])
    sketch.text(left + 1, 1.6, name)
sketch.alt = (
    f"Bars: the scores {row(scores)}; the scores less the largest, {row(shifted)}, none above "
    f"{number(shifted.max())}; and the weights {row(weights)} that both have."
)
