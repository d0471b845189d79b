"""Chapter 290: dropout, its gradient and what it adds."""

from fractions import Fraction

from transformer_practice.drills.exact import drawn, exact


def dropout(rng):
    """Draw a row and its mask."""
    rate = rng.choice([Fraction(1, n) for n in (3, 4, 5)] + [Fraction(3, 4)])
    mask = exact(rng.sample([1, 1, 0, rng.randint(0, 1)], 4))
    x, dy = drawn(rng, 4, low=-4, high=4), drawn(rng, 4)
    scale = 1 / (1 - rate)
    return {"x": x, "p": rate, "m": mask, "ȳ": dy}, [
        [
            mask * x * scale,
            mask * x,
            mask * x / rate,
            mask * x * (1 - rate),
            x * scale,
            (1 - mask) * x * scale,
        ],
        [
            mask * dy * scale,
            mask * dy,
            dy * scale,
            dy,
            (1 - mask) * dy * scale,
            mask * dy * (1 - rate),
        ],
        [x, mask * x * scale, x * (1 - rate), x * scale],
        [x * x * rate * scale, x * x * scale, x * x * rate * (1 - rate), x * rate * scale],
    ]
