"""Chapter 290: dropout, its gradient and what it adds."""

from fractions import Fraction

from transformer_practice.drills.drill import Drill, Step
from transformer_practice.drills.exact import drawn, exact


def dropout(rng):
    """Draw a row and its mask."""
    rate = rng.choice([Fraction(1, n) for n in (3, 4, 5)] + [Fraction(3, 4)])
    mask = exact(rng.sample([1, 1, 0, rng.randint(0, 1)], 4))
    x, dy = drawn(rng, 4, low=-4, high=4), drawn(rng, 4)
    scale = 1 / (1 - rate)
    return Drill(
        "Dropout",
        "290_dropout",
        "Each entry of x is dropped with the probability p. This time the mask m falls, with a 1 "
        "for what is kept, and what is kept is enlarged so that the mean over all masks stays. "
        "The gradient of the loss with respect to the output y is ȳ.",
        {"x": x, "p": rate, "m": mask, "ȳ": dy},
        (
            Step(
                "y",
                mask * x * scale,
                "y = m ⊙ x / (1 − p): p is what goes, 1 − p what stays.",
                {
                    "What is kept is not enlarged.": mask * x,
                    "This is divided by p, the probability to go.": mask * x / rate,
                    "What is kept is made smaller.": mask * x * (1 - rate),
                    "The mask is left out.": x * scale,
                    "The mask is turned round: a 1 is kept.": (1 - mask) * x * scale,
                },
            ),
            Step(
                "x̄, the gradient of x",
                mask * dy * scale,
                "x̄ = m ⊙ ȳ / (1 − p): the same mask and the same scale as forwards.",
                {
                    "The scale is forgotten on the way back.": mask * dy,
                    "The mask is forgotten on the way back.": dy * scale,
                    "Dropout is left out.": dy,
                    "The mask is turned round: a 1 is kept.": (1 - mask) * dy * scale,
                    "What is kept is made smaller.": mask * dy * (1 - rate),
                },
            ),
            Step(
                "E[y], the mean of y over all masks",
                x,
                "E[y] = (1 − p) · x / (1 − p) = x.",
                {
                    "This is y for the one mask.": mask * x * scale,
                    "The scale is left out.": x * (1 - rate),
                    "The probability is left out.": x * scale,
                },
            ),
            Step(
                "Var[y], the variance of each entry over all masks",
                x * x * rate * scale,
                "Var[y] = E[y²] − E[y]² = x² / (1 − p) − x² = x² p / (1 − p).",
                {
                    "E[y]² is not taken off.": x * x * scale,
                    "The scale is left out: this is p(1 − p) x².": x * x * rate * (1 - rate),
                    "x is not squared.": x * rate * scale,
                },
            ),
        ),
    )
