"""Chapter 250: a batch in unequal parts, clipping, and a schedule."""

from fractions import Fraction
from math import isqrt

import numpy as np

from transformer_practice.drills.drill import Drill, Step
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
        return {
            "This array is clipped by its own norm; all share one factor.": row
            * min(Fraction(1), Fraction(most, norm(row))),
            "This is divided by the norm, but c is left out.": row / together,
            "This is not clipped.": row,
            "Each entry is cut at c by itself; all are scaled by one factor.": row.clip(
                -most, most
            ),
        }

    return Drill(
        "A batch in parts, clipped and scheduled",
        "250_schedules",
        "A batch is worked on in three parts, which count n tokens and have the mean losses ℓ. "
        "The gradient of the whole batch has the two arrays A and B, and is clipped to the norm "
        "c. The learning rate rises in W steps, stays, and falls in the last F of N steps.",
        {
            "n": counts,
            "ℓ": losses,
            "A": first,
            "B": second,
            "c": most,
            "N": steps,
            "W": warmup,
            "F": decay,
            "t": at,
        },
        (
            Step(
                "the loss of the batch",
                of_batch,
                "Σ nⱼ ℓⱼ / Σ nⱼ: a part counts with its tokens.",
                {
                    "This is the mean of means; a part counts with its tokens.": sum(losses) / 3,
                    "This is the sum over the tokens; the loss is their mean.": sum(
                        counts * losses
                    ),
                    "This is divided by the number of parts.": sum(counts * losses) / 3,
                },
            ),
            Step(
                "the norm of the gradient",
                together,
                "‖g‖² is the sum of all squares, over all arrays.",
                {
                    "Norms of the arrays are added; their squares are.": norm(first) + norm(second),
                    "The root is missing.": together**2,
                    "This is the norm of A alone.": norm(first),
                    "This is the norm of B alone.": norm(second),
                },
            ),
            Step(
                "A, clipped",
                first * most / together,
                "g c / max(‖g‖, c): all arrays share one factor.",
                clipped(first),
            ),
            Step(
                "B, clipped",
                second * most / together,
                "g c / max(‖g‖, c): all arrays share one factor.",
                clipped(second),
            ),
            Step(
                "the learning rates at the four steps t, over the peak",
                rates(lambda t: t, lambda t: steps + 1 - t),
                "ηₜ = η_max min(1, t / W, (N + 1 − t) / F), and t counts from 1 to N.",
                {
                    "The fall is a step early: it ends with the rate 0.": rates(
                        lambda t: t, lambda t: steps - t
                    ),
                    "The rise is a step late: it starts with the rate 0.": rates(
                        lambda t: t - 1, lambda t: steps + 1 - t
                    ),
                    "The rise is a step late, the fall a step early.": rates(
                        lambda t: t - 1, lambda t: steps - t
                    ),
                    "The fall is left out.": rates(lambda t: t, lambda t: decay),
                },
            ),
        ),
    )
