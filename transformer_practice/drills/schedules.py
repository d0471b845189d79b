"""Chapter 250: a batch in unequal parts, clipping, and a schedule."""

from fractions import Fraction
from math import isqrt

import numpy as np

from transformer_practice.drills.exact import exact

# Two arrays whose norms are whole, and so is their norm together.
ARRAYS = [
    ([3, 4], [4, 8, 8]),
    ([1, 4, 8], [4, 8, 8]),
    ([4, 4, 7], [4, 8, 8]),
    ([2, 3, 6], [8, 16, 16]),
    ([12, 16], [2, 10, 11]),
    ([12, 16], [2, 5, 14]),
]


def norm(row):
    return isqrt(int(row @ row))


def schedules(rng):
    """Draw a batch in parts, a gradient in two arrays, and a schedule."""
    counts = exact([rng.randint(1, 6) for _ in range(3)])
    losses = exact([rng.randint(1, 9) for _ in range(3)])
    of_batch = sum(counts * losses) / sum(counts)
    first, second = (
        exact([size * rng.choice([-1, 1]) for size in rng.sample(sizes, len(sizes))])
        for sizes in rng.choice(ARRAYS)
    )
    together, most = norm(np.concatenate([first, second])), rng.randint(1, 6)
    warmup, plateau, decay = rng.randint(3, 5), rng.randint(1, 3), rng.randint(3, 6)
    steps = warmup + plateau + decay
    at = exact(
        [rng.randint(1, warmup - 1), warmup + 1, steps + 1 - rng.randint(2, decay - 1), steps]
    )

    def rates(rise, fall):
        return [min(Fraction(1), rise(t) / warmup, fall(t) / decay) for t in at]

    def clipped(row):
        by_itself = min(Fraction(1), Fraction(most, norm(row)))
        return [row * most / together, row * by_itself, row / together, row, row.clip(-most, most)]

    sizes = {"c": most, "N": steps, "W": warmup, "F": decay}
    return {"n": counts, "ℓ": losses, "A": first, "B": second} | sizes | {"t": at}, [
        [of_batch, sum(losses) / 3, sum(counts * losses), sum(counts * losses) / 3],
        [together, norm(first) + norm(second), together**2, norm(first), norm(second)],
        clipped(first),
        clipped(second),
        [
            rates(lambda t: t, lambda t: steps + 1 - t),
            rates(lambda t: t, lambda t: steps - t),
            rates(lambda t: t - 1, lambda t: steps + 1 - t),
            rates(lambda t: t - 1, lambda t: steps - t),
            rates(lambda t: t, lambda t: decay),
        ],
    ]
