"""Chapter 575: a draft is judged, and what is written has the model's distribution."""

from fractions import Fraction

import numpy as np

from transformer_practice.drills.exact import exact

ROWS = (5, 2, 1), (4, 3, 1), (6, 1, 1)  # eighths
HALF = Fraction(1, 2)


def speculative(rng):
    """Draw the distributions of three tokens, and the draft, of which q has more than p."""
    rate = HALF
    while rate in (HALF, 1):  # where mistakes would come to the same
        p, q = (exact(rng.sample(rng.choice(ROWS), 3)) / 8 for _ in "pq")
        rate = sum(np.minimum(p, q))
    v = rng.choice([token for token in range(3) if q[token] > p[token]])
    ratio = p[v] / q[v]
    more = np.maximum(p - q, Fraction(0))
    residual = more / more.sum()
    own = exact([int(token == v) for token in range(3)])
    return {"p": p, "q": q, "v": exact(v)}, [
        [ratio, 1 / ratio, p[v]],
        [rate, 1 - rate],
        [residual, more, p],
        [ratio * own + (1 - ratio) * residual, residual, ratio * own + (1 - ratio) * p],
        [1 + rate + rate**2, 2 * rate, rate + rate**2],
    ]
