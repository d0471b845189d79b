"""The surprise at a right answer, against the probability that it was given."""

import numpy as np
from graphs import number
from margin_figures import Sketch

from book.sentence import TOKENS
from transformer_core.ops import cross_entropy

logits = np.array([2.0, 0, 1]) * np.log(2)
losses = np.array([cross_entropy(logits[None], np.array([t]))[0] for t in range(3)])
p = np.exp(-losses)

grid = np.linspace(0.06, 1, 60)
sketch = Sketch(x=(0, 1), y=(-0.45, 2.8), height=110)
sketch.thin([0, 0, 1], [2.8, 0, 0])
sketch.line(grid, -np.log(grid), "blue")
sketch.dots(p, losses)
words = []
for x, y, token in zip(p, losses, TOKENS, strict=True):
    sketch.text(x, y, token, offset=(6, -5), anchor="start")
    words.append(f"{token} with the probability {number(x)} and the loss {number(y)}")
sketch.text(0, 0, "0", "soft", offset=(3, 13))
sketch.text(1, 0, "1", "soft", offset=(-2, 13))
sketch.text(0.5, 0, "*p*", "soft", offset=(0, 13))
sketch.alt = (
    "The curve of minus the logarithm of p, which falls to zero at p = one and rises without "
    f"bound towards p = zero. On it {', '.join(words)}."
)
