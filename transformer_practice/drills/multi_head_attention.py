"""Chapter 220: two heads, put side by side and mixed by one matrix."""

from fractions import Fraction

import numpy as np

from transformer_practice.drills.drill import Drill, Step
from transformer_practice.drills.exact import drawn, exact


def multi_head_attention(rng):
    """Draw the output of one head, and the weights and values of another."""
    first = drawn(rng, 2, high=4)
    weights = exact(rng.sample([Fraction(n, 4) for n in (1, 1, 2)], 3))
    value = drawn(rng, 3, 2, low=-4, high=4)
    while any(entry.denominator > 1 for entry in weights @ value):
        value = drawn(rng, 3, 2, low=-4, high=4)
    second = weights @ value
    mix = drawn(rng, 4, 4, low=-1, high=2)
    dy = drawn(rng, 4, low=-2, high=2)
    joined = np.concatenate([first, second])
    y, djoined = joined @ mix, dy @ mix.T
    return Drill(
        "Two heads",
        "220_multi_head_attention",
        "For one position the first head has the output o₁. The second weighs the values, the "
        "rows of V, with a. The two outputs side by side go through the output weights: "
        "y = (o₁, o₂) W. The gradient of the loss with respect to y is ȳ.",
        {"o₁": first, "a": weights, "V": value, "W": mix, "ȳ": dy},
        (
            Step(
                "o₂, the output of the second head",
                second,
                "o₂ = aV: the mean of the values with the weights a.",
                {"This is the plain sum of the values.": sum(value)},
            ),
            Step(
                "(o₁, o₂), the heads side by side",
                joined,
                "All entries of the first head come first, then all of the second.",
                {
                    "The heads change places.": np.concatenate([second, first]),
                    "The entries of the heads take turns.": np.ravel([first, second], "F"),
                },
            ),
            Step(
                "y",
                y,
                "y = (o₁, o₂) W.",
                {
                    "Rows of W stand where its columns belong.": joined @ mix.T,
                    "The heads are added; they stand side by side.": (first + second) @ mix[:2],
                    "This is the half: heads are not averaged.": y / 2,
                },
            ),
            Step(
                "the part of y that is due to the first head",
                first @ mix[:2],
                "The first head meets the first two rows of W, and y is the sum of both parts.",
                {
                    "This is the part of the second head.": second @ mix[2:],
                    "The first head meets the last two rows of W.": first @ mix[2:],
                },
            ),
            Step(
                "ō₁, the gradient of the first head's output",
                djoined[:2],
                "ō₁ = ȳ times the transpose of the first two rows of W.",
                {
                    "This is what the second head gets.": djoined[2:],
                    "W is not transposed.": (dy @ mix)[:2],
                    "The gradient is taken from after the output weights.": dy[:2],
                },
            ),
            Step(
                "ō₂, the gradient of the second head's output",
                djoined[2:],
                "ō₂ = ȳ times the transpose of the last two rows of W.",
                {
                    "This is what the first head gets.": djoined[:2],
                    "W is not transposed.": (dy @ mix)[2:],
                    "The gradient is taken from after the output weights.": dy[2:],
                },
            ),
            Step(
                "V̄, the gradient of the second head's values",
                np.outer(weights, djoined[2:]),
                "v̄ᵢ = aᵢ ō₂: each head hears its own gradient alone.",
                {
                    "This uses the first head's gradient.": np.outer(weights, djoined[:2]),
                    "The weights are left out: each value gets ō₂.": [djoined[2:]] * 3,
                },
            ),
        ),
    )
