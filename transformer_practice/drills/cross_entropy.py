"""Chapter 140: the mean cross-entropy over the counted positions, and its gradient."""

from fractions import Fraction

import numpy as np

from transformer_practice.drills.exact import drawn, exact
from transformer_practice.drills.softmax import exponentials


def cross_entropy(rng):
    """Draw three positions, two of them counted."""
    multiples = drawn(rng, 3, 3, low=0, high=2)
    targets = [rng.randrange(3) for _ in range(3)]
    counted = exact(rng.sample([1, 1, 0], 3))
    powers = exponentials(multiples)
    p = powers / powers.sum(axis=1, keepdims=True)
    of_target = p[range(3), targets]
    weights = counted / 2

    def rows(weights, gradient):
        return weights[:, np.newaxis] * gradient

    wrong = p - np.eye(3, dtype=int)[targets]
    twice = p * (wrong - (p * wrong).sum(axis=1, keepdims=True))
    return {"Z / ln 2": multiples, "words": targets, "counted": counted}, [
        [p, powers],
        [1 / of_target, of_target, 1 / p.max(axis=1)],
        [weights, counted / 3, [Fraction(1, 3)] * 3, counted],
        [
            rows(weights, wrong),
            rows(weights, -wrong),
            rows(weights, p),
            rows(counted, wrong),
            wrong / 2,
            rows(counted / 3, wrong),
            rows(weights, twice),
        ],
    ]
