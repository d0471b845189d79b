"""Chapter 160: two linear layers with a ReLU between them."""

import numpy as np

from transformer_practice.drills.exact import drawn, exact


def feed_forward(rng):
    """Draw a word and two small layers."""
    x, w1, b1 = drawn(rng, 2), drawn(rng, 2, 3, low=-2, high=2), drawn(rng, 3)
    w2, b2, dy = drawn(rng, 3, 2, low=-2, high=2), drawn(rng, 2), drawn(rng, 2)
    h = x @ w1 + b1
    on = exact(h > 0)
    a = h * on
    da = dy @ w2.T
    dh = da * on
    return {"x": x, "W₁": w1, "b₁": b1, "W₂": w2, "b₂": b2, "ȳ": dy}, [
        [h, x @ w1],
        [a, h, abs(h), on],
        [a @ w2 + b2, a @ w2, h @ w2 + b2],
        [np.outer(a, dy), np.outer(h, dy), np.outer(on, dy)],
        [da],
        [dh, da, np.maximum(da, 0), da * a],
        [dh @ w1.T, da @ w1.T],
    ]
