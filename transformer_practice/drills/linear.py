"""Chapter 120: a linear layer and its three gradients."""

import numpy as np

from transformer_practice.drills.exact import drawn


def linear(rng):
    """Draw three words and a layer of two inputs and two outputs."""
    x, w, b = drawn(rng, 3, 2, high=4), drawn(rng, 2, 2), drawn(rng, 2)
    dy = drawn(rng, 3, 2, low=-2, high=2)
    dw, db = x.T @ dy, sum(dy)
    return {"X": x, "W": w, "b": b, "Ȳ": dy}, [
        [x @ w + b, x @ w, x @ w.T + b],
        [dy @ w.T, dy @ w],
        [dw, dw.T, dw / 3, np.outer(x[2], dy[2])],
        [db, db / 3, dy[2]],
    ]
