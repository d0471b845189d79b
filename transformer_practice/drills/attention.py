"""Chapter 210: one query of attention, forward and backward."""

import numpy as np

from transformer_practice.drills.drill import Drill, Step
from transformer_practice.drills.exact import drawn
from transformer_practice.drills.softmax import broken_couplings, exponentials


def attention(rng):
    """Draw one query, three keys and three values."""
    while True:
        key, query = drawn(rng, 3, 4, low=0, high=1), drawn(rng, 4, low=-2, high=2)
        scores = key @ query / 2
        value, doutput = drawn(rng, 3, 2, low=-4, high=4), drawn(rng, 2)
        if (
            len(set(map(tuple, key))) == 3
            and min(scores) == 0
            and 0 < max(scores) <= 3
            and all(score.denominator == 1 for score in scores)
        ):
            powers = exponentials(scores)
            weights = powers / sum(powers)
            output = weights @ value
            if (output @ doutput).denominator == 1:
                break
    dweights = value @ doutput
    dscores = weights * (dweights - output @ doutput)
    dquery = dscores @ key / 2
    return Drill(
        "Attention, one query",
        "210_attention",
        "One query q, three keys and three values, the rows of K and V. The keys are 4 wide, so "
        "that the scores s are inner products over √4; they are whole multiples of ln 2. The "
        "output is o = softmax(s) V, and the gradient of the loss with respect to it is ō.",
        {"q / ln 2": query, "K": key, "V": value, "ō": doutput},
        (
            Step(
                "s / ln 2, the three scores",
                scores,
                "s = ⟨q, k⟩ / √4 for each key k.",
                {
                    "The scale 1/√4 is left out.": key @ query,
                    "This is divided by 4; the scale is 1/√4.": key @ query / 4,
                },
            ),
            Step(
                "a, the weights",
                weights,
                "a = softmax(s): exp(k ln 2) = 2ᵏ, over their sum.",
                {
                    "The exponentials are not divided by their sum.": powers,
                    "The scores are divided by their sum; exponentials come first.": scores
                    / sum(scores),
                },
            ),
            Step(
                "o, the output",
                output,
                "o = Σ aᵢ vᵢ: the mean of the values with the weights a.",
                {
                    "This is the plain mean of the values.": sum(value) / 3,
                    "This is the plain sum of the values.": sum(value),
                },
            ),
            Step(
                "V̄, the gradient of the values",
                np.outer(weights, doutput),
                "v̄ᵢ = aᵢ ō: a value hears as much as its weight lets through.",
                {
                    "The weights are left out: each value gets ō.": [doutput] * 3,
                    "Each value gets a third of ō; it gets its weight's share.": [doutput / 3] * 3,
                },
            ),
            Step(
                "ā, the gradient of the weights",
                dweights,
                "āᵢ = ⟨ō, vᵢ⟩.",
                {"This is ⟨ō, vᵢ − o⟩, a step further.": dweights - output @ doutput},
            ),
            Step(
                "s̄, the gradient of the scores",
                dscores,
                "s̄ᵢ = aᵢ (āᵢ − ⟨ā, a⟩) = aᵢ ⟨ō, vᵢ − o⟩: the three sum to 0.",
                broken_couplings(weights, dweights),
            ),
            Step(
                "q̄, the gradient of the query",
                dquery,
                "q̄ = s̄K / √4: the scale acts on the way back too.",
                {
                    "The scale 1/√4 is forgotten on the way back.": 2 * dquery,
                    "This is divided by 4; the scale is 1/√4.": dquery / 2,
                    "The weights stand where s̄ belongs.": weights @ key / 2,
                },
            ),
            Step(
                "the gradient of the first key, over ln 2",
                dscores[0] * query / 2,
                "k̄ᵢ = s̄ᵢ q / √4.",
                {
                    "The scale 1/√4 is forgotten on the way back.": dscores[0] * query,
                    "The weight stands where s̄ belongs.": weights[0] * query / 2,
                },
            ),
        ),
    )
