"""Chapter 270: a Post-LN block, forward and backward."""

import numpy as np

from transformer_practice.drills.exact import drawn, exact, mean
from transformer_practice.drills.layer_norm import normalised


def residual(rng):
    """Draw a block whose branch reads one entry."""
    y, std = normalised(rng)
    z = y * std + rng.choice([-2, -1, 1, 2])
    read = rng.randrange(4)
    at_read = exact(np.arange(4) == read)
    v = drawn(rng, 4, low=-2, high=2) * (1 - at_read)
    branch = z[read] * v
    while True:
        dy = drawn(rng, 4, low=-6, high=6)
        centre, slope = mean(dy), mean(dy * y)
        dz = (dy - centre - y * slope) / std
        if centre.denominator == 1 and slope.denominator <= 3:
            break
    through = (dz @ v) * at_read
    return {"x": z - branch, "r": read, "v": v, "ȳ": dy}, [
        [branch, v],
        [z, branch],
        [y, z / std, y * std, y / std],
        [
            dz,
            dy / std,
            (dy - y * slope) / std,
            (dy - centre) / std,
            dz * std,
            (dy - sum(dy) - y * 4 * slope) / std,
        ],
        [through, (dy @ v) * at_read, dz[read] * v, dz * v],
        [dz + through, through, dz, dy + through],
    ]
