"""Lines through the kink of ReLU that stay below it."""

import numpy as np
from graphs import number, row
from margin_figures import Sketch

from transformer_core.ops import relu, relu_backward

ends = np.array([-1.0, 1])
slopes = np.linspace(0, 1, 5)
x = np.array([-1.0, 0, 1])
y, cache = relu(x)
chosen = relu_backward(np.ones(3), cache)[1]

sketch = Sketch(x=(-1, 1), y=(-1, 1), height=100)
for slope in slopes:
    sketch.thin(ends, slope * ends)
sketch.dashed(ends, chosen * ends, "blue")
sketch.line(x, y, "blue")
sketch.dots(0, 0)
sketch.text(-1, chosen, f"*κ* = {number(chosen)}", "blue", (0, -6), "start")
sketch.text(-1, -1, f"*κ* = {number(slopes[-1])}", "soft", (26, -2), "start")
sketch.alt = (
    f"ReLU, and lines through its kink with the slopes {row(slopes)}, all below it. The package "
    f"takes the slope {number(chosen)}."
)
