"""Chapter 130: softmax and its backward pass."""

from transformer_practice.drills.drill import Drill, Step
from transformer_practice.drills.exact import drawn, exact, mean


def exponentials(multiples):
    """The exponentials of whole multiples of ln 2."""
    return exact(2**multiples)


def broken_couplings(a, da):
    """What people take for a ⊙ (ā − ⟨ā, a⟩)."""
    return {
        "The coupling is left out: this is a ⊙ ā.": a * da,
        "The coupling is left out: this is the diagonal a(1 − a) times ā.": a * (1 - a) * da,
        "The weight in front is left out.": da - sum(a * da),
        "The plain sum of ā stands where ⟨ā, a⟩ belongs.": a * (da - sum(da)),
        "The plain mean of ā stands where ⟨ā, a⟩ belongs.": a * (da - mean(da)),
        "The row sum of ā stands where that of a ⊙ ā belongs.": a * (da - a * sum(da)),
    }


def softmax(rng):
    """Draw three scores in whole multiples of ln 2."""
    multiples = drawn(rng, 3, low=0, high=3)
    powers = exponentials(multiples)
    weights = powers / sum(powers)
    dweights = drawn(rng, 3, low=-7, high=7)
    while sum(weights * dweights).denominator > 1:
        dweights = drawn(rng, 3, low=-7, high=7)
    return Drill(
        "Softmax",
        "130_softmax",
        "The scores x of three words are whole multiples of ln 2, so that their weights "
        "a = softmax(x) are fractions. The gradient of the loss with respect to the weights is ā.",
        {"x / ln 2": multiples, "ā": dweights},
        (
            Step(
                "exp(x), the exponentials",
                powers,
                "exp(k ln 2) = 2ᵏ.",
                {
                    "These are the multiples of ln 2 themselves.": multiples,
                    "The multiples are doubled; they are exponents.": multiples * 2,
                },
            ),
            Step(
                "a, the weights",
                weights,
                "a = exp(x) / Σ exp(x): the weights sum to 1.",
                {
                    "The exponentials are divided by the largest.": powers / max(powers),
                    "The exponentials are not divided by their sum.": powers,
                },
            ),
            Step(
                "⟨ā, a⟩, what is taken off each entry of ā",
                sum(weights * dweights),
                "⟨ā, a⟩ = Σ āᵢ aᵢ: the mean of ā in which a gives the weights.",
                {
                    "This is the plain sum of ā.": sum(dweights),
                    "This is the plain mean of ā.": mean(dweights),
                },
            ),
            Step(
                "x̄, the gradient of the scores",
                weights * (dweights - sum(weights * dweights)),
                "x̄ = a ⊙ (ā − ⟨ā, a⟩): each score also moves all other weights.",
                broken_couplings(weights, dweights),
            ),
        ),
    )
