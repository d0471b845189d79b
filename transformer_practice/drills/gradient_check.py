"""Chapter 110: difference quotients of a cubic, and by how much they are off."""

from fractions import Fraction

from transformer_practice.drills.drill import Drill, Step


def gradient_check(rng):
    """Draw a cubic, a point and a step."""
    a, b, c = rng.randint(1, 3), rng.randint(-3, 3), rng.randint(-3, 3)
    x = Fraction(rng.randint(-2, 2))
    h = Fraction(1, rng.randint(2, 3))

    def f(x):
        return a * x**3 + b * x**2 + c * x

    central = (f(x + h) - f(x - h)) / (2 * h)
    slope = 3 * a * x**2 + 2 * b * x + c
    return Drill(
        "Difference quotients",
        "110_gradient_check",
        "f(x) = a x³ + b x² + c x. Measure its slope at x with the step h, and compare.",
        {"a": a, "b": b, "c": c, "x": x, "h": h},
        (
            Step(
                "f(x + h)",
                f(x + h),
                "Put x + h in the place of x, in all three terms.",
                {"This is f(x) + h.": f(x) + h, "This is f(x).": f(x)},
            ),
            Step(
                "f(x − h)",
                f(x - h),
                "Put x − h in the place of x, in all three terms.",
                {"This is f(x) − h.": f(x) - h, "This is f(x).": f(x)},
            ),
            Step(
                "the central difference",
                central,
                "(f(x + h) − f(x − h)) / 2h: the two points are 2h apart.",
                {
                    "This is divided by h; the points are 2h apart.": 2 * central,
                    "This is the forward difference.": (f(x + h) - f(x)) / h,
                    "This is the backward difference.": (f(x) - f(x - h)) / h,
                    "The sign is turned: f(x + h) comes first.": -central,
                },
            ),
            Step(
                "f′(x), the slope itself",
                slope,
                "f′(x) = 3a x² + 2b x + c.",
                {
                    "The exponents do not come down as factors.": a * x**2 + b * x + c,
                    "This is the central difference, which is not exact.": central,
                },
            ),
            Step(
                "the central difference minus the slope",
                central - slope,
                "The error of the central difference is h² f‴(x) / 6, here a h²: positive.",
                {
                    "The sign is turned.": slope - central,
                    "This is the error of the forward difference.": (f(x + h) - f(x)) / h - slope,
                },
            ),
            Step(
                "the complex step, Im f(x + ih) / h",
                slope - a * h**2,
                "i³ = −i, so that the complex step is f′(x) − a h²: as far off on the other side.",
                {
                    "This is the central difference: the sign of h² is turned by i³.": central,
                    "This is the slope: the term with h³ is left out.": slope,
                },
            ),
        ),
    )
