"""What a fresh branch adds stands nearly at a right angle to what it reads."""

import numpy as np
from graphs import number
from margin_figures import Sketch

from transformer_core.layers import FeedForward

rng = np.random.default_rng(0)
width = 64
x = rng.normal(size=width)
x /= np.sqrt((x**2).mean())
added, _ = FeedForward(width, 4 * width, rng, np.float64).forward(x)
along = (x * added).mean()
across = np.sqrt((added**2).mean() - along**2)
end = np.array([1 + along, across])

sketch = Sketch(x=(-0.03, 1.32), y=(-0.18, 0.42))
sketch.arrow((0, 0), (1, 0))
sketch.arrow((1, 0), end, "blue")
sketch.arrow((0, 0), end, "soft")
sketch.text(0.55, 0, "*x*", offset=(0, 13))
sketch.text(*(end + [1, 0]) / 2, "*f*(*x*)", "blue", (7, 6), "start")
sketch.text(*end / 2, "*x* + *f*(*x*)", "soft", (-12, -7))
angle = np.degrees(np.arctan2(across, along))
sketch.alt = (
    f"A triangle of x, what a fresh feed-forward branch of width {width} adds, and their sum, in "
    f"true lengths. The branch adds {number(np.hypot(along, across), exact=False)} of the length "
    f"of x, at {number(angle, 0, exact=False)} degrees to it; the sum has "
    f"{number(np.hypot(*end), exact=False)}."
)
