"""Chapter 220: two heads, put side by side and mixed by one matrix."""

from fractions import Fraction

import numpy as np

from transformer_practice.drills.exact import drawn, exact


def multi_head_attention(rng):
    """Draw the output of one head, and the weights and values of another."""
    first = drawn(rng, 2, high=4)
    weights = exact(rng.sample([Fraction(n, 4) for n in (1, 1, 2)], 3))
    value = drawn(rng, 3, 2, low=-4, high=4)
    while any(entry.denominator > 1 for entry in weights @ value):
        value = drawn(rng, 3, 2, low=-4, high=4)
    second = weights @ value
    mix = drawn(rng, 4, 4, low=-1, high=2)
    dy = drawn(rng, 4, low=-2, high=2)
    joined = np.concatenate([first, second])
    y, djoined = joined @ mix, dy @ mix.T
    return {"o₁": first, "a": weights, "V": value, "W": mix, "ȳ": dy}, [
        [second, sum(value)],
        [joined, np.concatenate([second, first]), np.ravel([first, second], "F")],
        [y, joined @ mix.T, (first + second) @ mix[:2], y / 2],
        [first @ mix[:2], second @ mix[2:], first @ mix[2:]],
        [djoined[:2], djoined[2:], (dy @ mix)[:2], dy[:2]],
        [djoined[2:], djoined[:2], (dy @ mix)[2:], dy[2:]],
        [np.outer(weights, djoined[2:]), np.outer(weights, djoined[:2]), [djoined[2:]] * 3],
    ]
