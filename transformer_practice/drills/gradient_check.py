"""Chapter 110: difference quotients of a cubic, and by how much they are off."""

from fractions import Fraction


def gradient_check(rng):
    """Draw a cubic, a point and a step."""
    a, b, c = rng.randint(1, 3), rng.randint(-3, 3), rng.randint(-3, 3)
    x = Fraction(rng.randint(-2, 2))
    h = Fraction(1, rng.randint(2, 3))

    def f(x):
        return a * x**3 + b * x**2 + c * x

    central = (f(x + h) - f(x - h)) / (2 * h)
    slope = 3 * a * x**2 + 2 * b * x + c
    return {"a": a, "b": b, "c": c, "x": x, "h": h}, [
        [f(x + h), f(x) + h, f(x)],
        [f(x - h), f(x) - h, f(x)],
        [central, 2 * central, (f(x + h) - f(x)) / h, (f(x) - f(x - h)) / h, -central],
        [slope, a * x**2 + b * x + c, central],
        [central - slope, slope - central, (f(x + h) - f(x)) / h - slope],
        [slope - a * h**2, central, slope],
    ]
