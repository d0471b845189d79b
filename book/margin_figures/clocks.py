"""Three pairs of sinusoidal positions as the hands of clocks, of which each is slower."""

import numpy as np
from graphs import row
from margin_figures import Sketch

from transformer_core.ops import sinusoidal_positions

width, last = 64, 4
table = sinusoidal_positions(last + 1, width)
turn = np.linspace(0, 2 * np.pi, 49)
pairs = np.array([0, 4, 8])

sketch = Sketch(x=(-1, 6.4), y=(-1.75, 1))
for pair, middle in zip(pairs, (0, 2.7, 5.4), strict=True):
    sketch.thin(middle + np.sin(turn), np.cos(turn))
    for t, (sine, cosine) in enumerate(table[:, 2 * pair : 2 * pair + 2]):
        if t < last:
            sketch.thin([middle, middle + 0.9 * sine], [0, 0.9 * cosine], "sky")
    sketch.arrow((middle, 0), (middle + 0.9 * sine, 0.9 * cosine), "blue")
    sketch.text(middle, -1, f"*i* = {pair}", offset=(0, 15))
angles = np.degrees(np.arctan2(table[last, 2 * pairs], table[last, 2 * pairs + 1])) % 360
sketch.alt = (
    f"Three clocks, the pairs i = {row(pairs)} of {width} entries, with a hand for each of the "
    f"first {len(table)} positions. The last hands stand at {row(angles, 0, exact=False)} degrees."
)
