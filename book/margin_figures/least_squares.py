"""The average square distance from a number is least at the mean: it is flat there."""

import numpy as np
from graphs import number, row
from margin_figures import Sketch

from book.sentence import EMBEDDING

x = EMBEDDING[0]
mean, variance = x.mean(), x.var()
grid = np.linspace(-4, 6, 60)
distance = ((x - grid[:, None]) ** 2).mean(axis=1)

sketch = Sketch(x=(-5, 7), y=(-7, 34), height=100)
sketch.thin([-5, 7], [0, 0])
sketch.specks(x, np.zeros(4), "ink")
sketch.line(grid, distance, "variance-term")
sketch.dashed([mean - 2.5, mean + 2.5], [variance, variance], "ink")
sketch.thin([mean, mean], [0, variance])
sketch.dots(mean, variance, "variance-term")
sketch.text(mean, variance, "σ²", "variance-term", offset=(0, -8))
sketch.text(mean, 0, "*μ*", "mean-term", offset=(0, 15))
sketch.alt = (
    f"A parabola over the numbers {row(x)}: their average square distance from a number. Its "
    f"least value, the variance {number(variance)}, stands at the mean {number(mean)}, where the "
    "curve is flat."
)
