"""The output of two heads: what each of them writes, laid end to end."""

import numpy as np
from graphs import row
from margin_figures import Sketch

from book.sentence import EMBEDDING, KEY, QUERY, VALUE
from transformer_core.ops import attention, linear

first = attention(QUERY, KEY, VALUE)[0][1]
second = np.array([1.0, 2, 1]) / 4 @ EMBEDDING[:, :2]
weight = np.array([[1.0, 0, 2, 0], [0, 1, 0, -1], [1, 0, 1, 0], [0, -1, 0, 1]])
shares = [linear(first, weight[:2])[0], linear(second, weight[2:])[0]]
y, _ = linear(np.hstack([first, second]), weight)

shown = [0, 1]
corner, end = shares[0][shown], y[shown]
sketch = Sketch(x=(-2.6, 4.4), y=(-0.2, 5.2))
sketch.arrow((0, 0), end)
sketch.arrow((0, 0), corner, "sky")
sketch.arrow(corner, end, "sky")
sketch.text(*corner / 2, "head 0", "sky", (-6, 4), "end")
sketch.text(*(corner + end) / 2, "head 1", "sky", (-6, -6), "end")
sketch.text(*end / 2, "*y*", offset=(10, 8), anchor="start")
sketch.alt = (
    f"Two arrows end to end, the first two entries of what the heads write: "
    f"{row(shares[0][shown])} and {row(shares[1][shown])}. They lead to {row(end)}, those of y."
)
