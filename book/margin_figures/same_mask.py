"""Dropout keeps the same entries forward and backward."""

import numpy as np
from graphs import number
from margin_figures import Sketch

from transformer_core.ops import dropout, dropout_backward

rate = 0.5
ones = np.ones((5, 8))
y, cache = dropout(ones, rate, np.random.default_rng(0))
dx = dropout_backward(ones, cache)

sketch = Sketch(x=(0, 18), y=(0, 6.8))
for left, passed, name, hue in ((0, y, "*y*", "blue"), (10, dx, "*x̄*", "cotangent")):
    sketch.squares(passed > 0, left, 5, hue)
    sketch.text(left + 4, 5, name, hue, offset=(0, -4))
sketch.alt = (
    f"Two blocks of {ones.size} squares, forward and backward, at the rate {number(rate)}. The "
    f"same {np.count_nonzero(y)} are full in both, {np.count_nonzero(y * dx)} of "
    f"{np.count_nonzero(dx)}."
)
