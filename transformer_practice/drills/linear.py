"""Chapter 120: a linear layer and its three gradients."""

import numpy as np

from transformer_practice.drills.drill import Drill, Step
from transformer_practice.drills.exact import drawn


def linear(rng):
    """Draw three words and a layer of two inputs and two outputs."""
    x, w, b = drawn(rng, 3, 2, high=4), drawn(rng, 2, 2), drawn(rng, 2)
    dy = drawn(rng, 3, 2, low=-2, high=2)
    dw, db = x.T @ dy, sum(dy)
    return Drill(
        "A linear layer",
        "120_linear",
        "Three words, the rows of X, go through the same weights and the same bias: "
        "Y = XW + b. The gradient of the loss with respect to the three outputs is Ȳ.",
        {"X": x, "W": w, "b": b, "Ȳ": dy},
        (
            Step(
                "Y, a row for each word",
                x @ w + b,
                "Y = XW + b: entry j of a row is the row of X times column j of W, plus bⱼ.",
                {
                    "The bias is left out.": x @ w,
                    "Rows of W stand where its columns belong.": x @ w.T + b,
                },
            ),
            Step(
                "X̄, the gradient of the inputs",
                dy @ w.T,
                "X̄ = ȲWᵀ: xᵢ reached the outputs through row i of W, and hears back through it.",
                {"W is not transposed.": dy @ w},
            ),
            Step(
                "W̄, the gradient of the weights",
                dw,
                "W̄ = XᵀȲ: one outer product from each word, and their sum.",
                {
                    "This is the transpose.": dw.T,
                    "A mean over the words stands where their sum belongs.": dw / 3,
                    "This is the last word's part alone.": np.outer(x[2], dy[2]),
                },
            ),
            Step(
                "b̄, the gradient of the bias",
                db,
                "b̄ = Σₙ ȳₙ: every word uses the bias, so their gradients add up.",
                {
                    "A mean over the words stands where their sum belongs.": db / 3,
                    "This is the last word's part alone.": dy[2],
                },
            ),
        ),
    )
