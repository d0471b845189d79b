"""Targets by their standard deviation and mean: the outputs of a LayerNorm stand at one point."""

import numpy as np
from graphs import number
from margin_figures import Sketch

from transformer_core.tasks.reconstruction import Reconstruction, layer_norm_floor

rng = np.random.default_rng(0)
task = Reconstruction(rng)
_, targets = task.sample(1, rng)
means, deviations = targets.mean(axis=-1).ravel(), targets.std(axis=-1).ravel()
width = targets.shape[-1]
floor = layer_norm_floor(targets, np.ones(width), np.zeros(width))

sketch = Sketch(x=(0.5, 1.4), y=(-0.32, 0.32))
sketch.thin([0.5, 1.4], [0, 0])
for point in zip(deviations, means, strict=True):
    sketch.thin(*zip((1, 0), point, strict=True), "line")
sketch.specks(deviations, means, "blue")
sketch.dots(1, 0)
sketch.text(1, 0, "*x̂*", offset=(-32, -6))
sketch.alt = (
    f"The {means.size} targets of a sequence as points, their standard deviation to the right and "
    f"their mean upwards, around the one where every output of LayerNorm stands. The mean "
    f"square of the distances is the floor, {number(floor, 4, exact=False)}."
)
