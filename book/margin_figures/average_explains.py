"""What is left of a number that is guessed from the average of T numbers: hardly less."""

import numpy as np
from graphs import number
from margin_figures import Sketch

w = np.linspace(0, 2, 41)
sketch = Sketch(x=(-0.15, 2.1), y=(-0.2, 1.1), height=110)
sketch.thin([0, 0, 2.1], [1.1, 0, 0])
least = []
for T, hue in ((1, "sky"), (4, "sky"), (64, "blue")):
    error = 1 - 2 * w / T + w**2 / T
    best = error.argmin()
    sketch.line(w, error, hue)
    sketch.dots(w[best], error[best], hue)
    words = f"*T* = {T}" if T == 1 else str(T)
    sketch.text(w[best], error[best], words, hue, offset=(0, 16 if T == 4 else -7))
    least.append(f"{number(error[best])} for T = {T}")
sketch.text(2, 0, "*w*", "soft", offset=(0, 13))
sketch.alt = (
    "Three parabolas over the factor w that start at the same height. The least values are "
    f"{', '.join(least)}."
)
