"""Chapter 595: the gradient of a cross-entropy whose target does not sum to 1."""

import numpy as np

from transformer_practice.drills.exact import drawn, exact
from transformer_practice.drills.softmax import exponentials


def shipped(rng):
    """Draw a position, and what a teacher leaves of its distribution: a part of it."""
    multiples = drawn(rng, 3, low=0, high=2)
    p = exponentials(multiples) / exponentials(multiples).sum()
    while True:
        q = exact(rng.sample([0, 1, 2, 3], 3)) / 4
        s = q.sum()
        if s != 1 and not np.array_equal(q, s * p):
            break
    return {"z / ln 2": multiples, "q": q}, [
        [p, exponentials(multiples)],
        [s, s / 3, q.max()],
        [s * p - q, p - q, q - s * p, s * p, p - q / s],
        [exact(0), 1 - s],
    ]
