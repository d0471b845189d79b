"""The two singular values of the example on their way to 1."""

import numpy as np
from graphs import row
from margin_figures import Sketch

from transformer_core.optim.muon import CUBIC, orthogonalize

gradient = np.array([[3.0, 0], [4, 5]])
iterations = 5
values = [np.linalg.svd(gradient / np.linalg.norm(gradient))[1]]
for i in range(1, iterations + 1):
    values.append(np.linalg.svd(orthogonalize(gradient, i, CUBIC))[1])
values = np.array(values)

a, b, _ = CUBIC
grid = np.linspace(0, 1, 40)
sketch = Sketch(x=(0, 1), y=(0, 1.08), height=140)
sketch.thin([0, 1], [0, 1])
sketch.line(grid, a * grid + b * grid**3)
for way, hue in zip(values.T, ("sky", "blue"), strict=True):
    corners = np.repeat(way, 2)
    sketch.dashed(corners[:-1], np.append(0, corners[2:]), hue)
    sketch.dots(way[0], 0, hue)
sketch.text(0.25, 0.47, "*p*", offset=(0, -8))
sketch.text(0.8, 0.8, "*x*", "soft", offset=(8, 10))
sketch.alt = (
    f"The cubic polynomial above the diagonal. Stairs between them lead the singular values "
    f"{row(values[0], exact=False)} in {iterations} rounds to one, less "
    f"{1 - values[-1].min():.0e}."
)
