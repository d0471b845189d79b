"""Padding, causality and both, as squares: a full one may be attended to."""

import numpy as np
from margin_figures import Sketch

from transformer_core.ops import causal_keep, padding_keep

length, tokens = 5, 3
padding = np.broadcast_to(padding_keep(np.array([tokens]), length).ravel(), (length, length))
causal = causal_keep(length)
both = padding & causal

sketch = Sketch(x=(0, 19), y=(0, 7.6))
for left, keep, name in ((0, padding, "padding"), (7, causal, "causal"), (14, both, "both")):
    sketch.squares(keep, left, 5, "key")
    sketch.text(left + 2.5, 6, name)
sketch.alt = (
    f"Three masks of {length} by {length} squares. Padding keeps the first {tokens} columns, "
    f"{padding.sum()} squares; causality the lower triangle, {causal.sum()}; both together "
    f"{both.sum()}."
)
