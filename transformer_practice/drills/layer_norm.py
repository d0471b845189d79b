"""Chapter 150: LayerNorm and the three terms of its gradient."""

from transformer_practice.drills.drill import Drill, Step
from transformer_practice.drills.exact import drawn, exact, mean


def normalised(rng):
    """A row of mean 0 and mean square 1, and a standard deviation that makes it whole."""
    row = exact(rng.sample(rng.choice([[1, 1, 3, -5], [-1, -1, -3, 5]]), 4))
    return row / 3, rng.choice([3, 6])


def layer_norm(rng):
    """Draw a row with a whole mean and a whole standard deviation."""
    x_hat, std = normalised(rng)
    deviation, mu = x_hat * std, rng.choice([-3, -2, -1, 1, 2, 3])
    while True:
        gamma, dy = drawn(rng, 4, low=1), drawn(rng, 4)
        g = dy * gamma
        centre, slope = mean(g), mean(g * x_hat)
        if centre.denominator == 1 and slope.denominator <= 3:
            break
    plain = dy - mean(dy) - x_hat * mean(dy * x_hat)
    return Drill(
        "LayerNorm",
        "150_layer_norm",
        "A row x is normalised, ε = 0, and scaled by γ: y = γ ⊙ x̂; β is 0. The gradient of the "
        "loss with respect to y is ȳ.",
        {"x": deviation + mu, "γ": gamma, "ȳ": dy},
        (
            Step("μ, the mean of x", mu, "μ = (Σ xᵢ) / D.", {"This is the sum of x.": 4 * mu}),
            Step(
                "s, what the row is divided by",
                std,
                "s = √(mean of (xᵢ − μ)²), the standard deviation.",
                {
                    "The root is missing: this is the variance.": std**2,
                    "The sum of squares stands where their mean belongs.": 2 * std,
                },
            ),
            Step(
                "x̂, the normalised row",
                x_hat,
                "x̂ = (x − μ) / s: mean 0, mean square 1.",
                {
                    "The mean is not taken off.": (deviation + mu) / std,
                    "This is not divided by s.": deviation,
                    "This is divided by the variance.": deviation / std**2,
                },
            ),
            Step(
                "g, the gradient of x̂",
                g,
                "g = ȳ ⊙ γ: y is γ ⊙ x̂, and γ comes first on the way back.",
                {"γ is left out here; it belongs inside the means.": dy},
            ),
            Step(
                "mean(g)",
                centre,
                "mean(g) = (Σ gᵢ) / D.",
                {
                    "A sum stands where a mean belongs.": sum(g),
                    "γ is left out: this is the mean of ȳ.": mean(dy),
                },
            ),
            Step(
                "mean(g ⊙ x̂)",
                slope,
                "mean(g ⊙ x̂) = (Σ gᵢ x̂ᵢ) / D.",
                {
                    "A sum stands where a mean belongs.": 4 * slope,
                    "γ is left out: this is the mean of ȳ ⊙ x̂.": mean(dy * x_hat),
                },
            ),
            Step(
                "x̄, the gradient of x",
                (g - centre - x_hat * slope) / std,
                "x̄ = (g − mean(g) − x̂ mean(g ⊙ x̂)) / s.",
                {
                    "γ was applied after the means; it stands inside them.": gamma * plain / std,
                    "γ is left out.": plain / std,
                    "The mean term is left out.": (g - x_hat * slope) / std,
                    "The variance term is left out.": (g - centre) / std,
                    "Mean and variance are held fixed: this is g / s.": g / std,
                    "Sums stand where means belong.": (g - sum(g) - x_hat * 4 * slope) / std,
                    "The variance term is added; it is taken off.": (g - centre + x_hat * slope)
                    / std,
                },
            ),
            Step(
                "γ̄, the part of this row in the gradient of γ",
                dy * x_hat,
                "γ̄ = ȳ ⊙ x̂, summed over the rows: γᵢ acts through yᵢ = γᵢ x̂ᵢ alone.",
                {
                    "This uses y where x̂ belongs.": dy * gamma * x_hat,
                    "This uses x where x̂ belongs.": dy * (deviation + mu),
                },
            ),
        ),
    )
