"""The gradient of a residual block: what comes along the skip, and then through the branch."""

import numpy as np
from graphs import row
from margin_figures import Sketch

from book.sentence import EMBEDDING
from transformer_core.ops import linear, linear_backward

weight = np.zeros((4, 4))  # of the branch
weight[3, :2] = 1 / 2, -1 / 2
_, branch = linear(EMBEDDING[0], weight, np.zeros(4))
skip = np.array([12.0, 0, 0, 0])
through, _, _ = linear_backward(skip, branch)
dx = skip + through

shown = [0, 3]
sketch = Sketch(x=(-0.4, 12.4), y=(-1.6, 6.4))
sketch.arrow((0, 0), dx[shown], "ink")
sketch.arrow((0, 0), skip[shown], "cotangent")
sketch.arrow(skip[shown], dx[shown], "cotangent")
sketch.text(*skip[shown] / 2, "skip", "cotangent", offset=(0, 14))
sketch.text(*(skip + dx)[shown] / 2, "branch", "cotangent", (-6, 4), "end")
sketch.text(*dx[shown] / 2, "*x̄*", offset=(-6, -8))
sketch.alt = (
    f"Two arrows end to end: {row(skip[shown])} along the skip, {row(through[shown])} through the "
    f"branch, in the first and the last entry. Together they are the gradient {row(dx[shown])}."
)
