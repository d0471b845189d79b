"""The gradient of the bias: the cotangents of the three words, laid end to end."""

import numpy as np
from graphs import row
from margin_figures import Sketch

from book.sentence import EMBEDDING, TOKENS
from transformer_core.ops import linear, linear_backward

weight = np.array([[1.0, 0], [0, 1], [1, -1], [0, 1]])
dy = np.array([[1.0, 0], [0, 1], [1, -1]])
_, cache = linear(EMBEDDING, weight, np.array([-1.0, 2]))
_, _, dbias = linear_backward(dy, cache)

ends = np.vstack([np.zeros(2), dy.cumsum(axis=0)])
sketch = Sketch(x=(-0.25, 2.45), y=(-0.3, 1.1))
sketch.arrow(ends[0], dbias, "ink")
sides = [((-2, 15), "middle"), ((-7, 4), "end"), ((8, -2), "start")]
for start, end, token, side in zip(ends[:-1], ends[1:], TOKENS, sides, strict=True):
    sketch.arrow(start, end, "cotangent")
    sketch.text(*(start + end) / 2, token, "cotangent", *side)
sketch.text(1.5, 0, "*b̄*", "ink", offset=(0, 15))
sketch.alt = (
    f"Three arrows end to end, the cotangents {row(dy)} of {', '.join(TOKENS)}. They lead from "
    f"the origin to {row(dbias)}, the gradient of the bias."
)
