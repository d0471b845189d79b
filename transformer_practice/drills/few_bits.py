"""Chapter 590: spacing, a middle, a sum that stands still, a draw, and a scaled gradient."""

from fractions import Fraction


def few_bits(rng):
    """Draw a format of few bits, numbers to round in it, and the length of a scaled gradient."""
    p = rng.choice((3, 4))
    s = Fraction(rng.choice(("1/2", "2", "4")))
    m = 2 * rng.randrange(2 ** (p - 2), 2 ** (p - 1))  # even, and of p bits
    x = (m + Fraction(1, 2)) * s
    f = Fraction(rng.choice(("1/4", "3/4")))
    z = (m + f) * s
    a = Fraction(rng.choice(("1/2", "1", "2", "4")))
    scale, limit = rng.choice((8, 16, 32)), rng.choice((1, 2, 3))
    norm = limit + rng.choice((1, 2, 4))
    return {"p": p, "x": x, "a": a, "z": z, "‖g‖": scale * norm, "λ": scale, "c": limit}, [
        [s, s / 2, s * 2],
        [m * s, (m + 1) * s, x],
        [2**p * a, 2 ** (p - 1) * a, (2**p + 1) * a],
        [f, 1 - f, Fraction(1, 2)],
        [f * (1 - f) * s**2, f * (1 - f), s**2 / 4],
        [Fraction(limit), Fraction(limit, scale), Fraction(norm)],
    ]
