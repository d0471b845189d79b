"""The cotangent of ones stands at right angles to all that a centred row can do."""

import numpy as np
from graphs import row
from margin_figures import Sketch

ones = np.ones(2)
random = np.random.default_rng(11).normal(size=2)
centring = np.eye(2) - 1 / 2  # the Jacobian of x - mean(x)
seen, nothing = random @ centring, ones @ centring

sketch = Sketch(x=(-1.2, 1.7), y=(-0.5, 1.45))
sketch.thin([-1.2, 0.5], [1.2, -0.5])
sketch.text(0.5, -0.5, "all *y*", "soft", offset=(2, -12), anchor="start")
sketch.arrow((0, 0), ones, "soft")
sketch.text(*ones, row(ones), "soft", offset=(8, 4), anchor="start")
sketch.arrow((0, 0), random, "cotangent")
sketch.text(*random, "*r*", "cotangent", offset=(10, 4))
sketch.dashed(*zip(random, seen, strict=True))
sketch.dots(*seen, "cotangent")
sketch.dots(*nothing, "soft")
sketch.alt = (
    f"A plane and in it the line of all y = x − mean(x). The random cotangent r = {row(random)} "
    f"has the shadow {row(seen)} on this line; the cotangent {row(ones)} has the shadow "
    f"{row(nothing)}."
)
