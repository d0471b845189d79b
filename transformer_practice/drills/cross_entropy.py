"""Chapter 140: the mean cross-entropy over the counted positions, and its gradient."""

from fractions import Fraction

import numpy as np

from transformer_practice.drills.drill import Drill, Step
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
    return Drill(
        "Cross-entropy",
        "140_cross_entropy",
        "A model gives three positions logits for a vocabulary of three words, the rows of Z, in "
        "whole multiples of ln 2. The words that stood there are numbered from 0. The loss is "
        "the mean over the positions that are counted, those with a 1; the other is padding.",
        {"Z / ln 2": multiples, "words": targets, "counted": counted},
        (
            Step(
                "P, the probabilities, a row for each position",
                p,
                "p = softmax(z), row by row: exp(k ln 2) = 2ᵏ over the sum of the row.",
                {"The exponentials are not divided by their sum.": powers},
            ),
            Step(
                "exp(ℓ) for each position, where ℓ is its loss",
                1 / of_target,
                "ℓ = −ln p of the word that stood there, so that exp(ℓ) is 1 over its probability.",
                {
                    "This is exp(−ℓ): the sign of the logarithm is missing.": of_target,
                    "This is 1 over the largest probability of each row.": 1 / p.max(axis=1),
                },
            ),
            Step(
                "ω, the weight of each position in the loss",
                weights,
                "The loss is a mean over the counted positions: each has the weight 1 over their "
                "number, and the other 0.",
                {
                    "The mean is taken over all positions, with the padding.": counted / 3,
                    "The padding is counted.": [Fraction(1, 3)] * 3,
                    "The sum stands where the mean belongs.": counted,
                },
            ),
            Step(
                "Z̄, the gradient of the logits",
                rows(weights, wrong),
                "z̄ = ω (p − one-hot of the word): what the model says, minus what was.",
                {
                    "The sign is turned: this lowers the right word.": rows(weights, -wrong),
                    "The one-hot row is left out.": rows(weights, p),
                    "The weight ω is left out.": rows(counted, wrong),
                    "The padding gets a gradient.": wrong / 2,
                    "This is divided by the number of all positions.": rows(counted / 3, wrong),
                    "The softmax's gradient is taken twice: p − one-hot holds it already.": rows(
                        weights, twice
                    ),
                },
            ),
        ),
    )
