"""A block of tokens, and what becomes of those that are drawn."""

import numpy as np
from margin_figures import Sketch

from transformer_core.tasks.bert.masking import mask
from transformer_core.tasks.texts.wordpiece import MASK, SPECIAL_TOKENS

vocabulary, rows, columns = 8192, 4, 16
ids = np.full((1, rows * columns), len(SPECIAL_TOKENS))
inputs, masked = mask(ids, vocabulary, np.random.default_rng(0))
hidden = inputs == MASK
itself = masked & (inputs == ids)
other = masked & ~hidden & ~itself

sketch = Sketch(x=(0, 16), y=(-2.4, rows))
fates = ((hidden, "ink"), (other, "wrong"), (itself, "blue"))
for token in range(ids.size):
    corner = token % columns, rows - token // columns
    for fate, hue in fates:
        if fate[0, token]:
            sketch.square(*corner, hue)
    if not masked[0, token]:
        sketch.square(*corner, "line", full=False)
for left, hue, name in ((0, "ink", "[MASK]"), (6.4, "wrong", "other"), (11.8, "blue", "itself")):
    sketch.square(left, -1.2, hue)
    sketch.text(left + 1.3, -2.2, name, anchor="start")
sketch.alt = (
    f"A block of {ids.size} tokens as squares. {masked.sum()} are drawn: {hidden.sum()} become "
    f"[MASK], {other.sum()} another token, {itself.sum()} stay."
)
