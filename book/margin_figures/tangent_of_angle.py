"""Two independent normal numbers: a large ratio is a narrow pair of wedges."""

import numpy as np
from graphs import number
from margin_figures import Sketch

t = 2
entry, error = np.random.default_rng(0).normal(size=(2, 200))
beyond = np.abs(error) > t * np.abs(entry)
law = 1 - 2 / np.pi * np.arctan(t)

R, top = 2.6, 1.9
sketch = Sketch(x=(-R, R), y=(-top, top + 0.5))
for side in (1, -1):
    sketch.area([0, side * top / t, -side * top / t], [0, side * top, side * top], "wash")
inside = (np.abs(entry) < R) & (np.abs(error) < top)
for which, hue in ((~beyond, "sky"), (beyond, "wrong")):
    sketch.specks(entry[which & inside], error[which & inside], hue)
sketch.thin([-R, R], [0, 0])
sketch.text(R, 0, "*a*", "ink", (0, -4), "end")
sketch.text(0, top, "*n* − *a*", "ink", (0, -4))
sketch.alt = (
    f"A round cloud of {len(entry)} points, entries to the right and errors upwards. The share "
    f"{number(beyond.mean(), exact=False)} of them stands in the two wedges where the error is "
    f"more than {t} times the entry; the law says {number(law, exact=False)}."
)
