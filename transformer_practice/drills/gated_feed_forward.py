"""Chapter 530: a gated layer, with ReLU for its gates."""

import numpy as np

from transformer_practice.drills.exact import drawn, exact


def gated_feed_forward(rng):
    """Draw a word and the three matrices of a layer with two units."""
    x, dy = drawn(rng, 2), drawn(rng, 2)
    gate, value, output = (drawn(rng, 2, 2) for _ in range(3))
    h, v = x @ gate, x @ value
    on = exact(h > 0)
    g = h * on
    p, dp = g * v, dy @ output.T
    dv, dh = dp * g, dp * v * on
    return {"x": x, "W_g": gate, "W_v": value, "W₂": output, "ȳ": dy}, [
        [h, v],
        [g, h, abs(h), on],
        [v, h],
        [p @ output, (g + v) @ output, h * v @ output],
        [dp, dy @ output],
        [dv, dp * v, dp],
        [dh, dp * v, dp * on, dp * g],
        [np.outer(p, dy), np.outer(g, dy), np.outer(v, dy)],
        [dh @ gate.T + dv @ value.T, dh @ gate.T, dv @ value.T],
    ]
