"""Chapter 270: a Post-LN block, forward and backward."""

import numpy as np

from transformer_practice.drills.drill import Drill, Step
from transformer_practice.drills.exact import drawn, exact, mean
from transformer_practice.drills.layer_norm import normalised


def residual(rng):
    """Draw a block whose branch reads one entry."""
    y, std = normalised(rng)
    z = y * std + rng.choice([-2, -1, 1, 2])
    read = rng.randrange(4)
    at_read = exact(np.arange(4) == read)
    v = drawn(rng, 4, low=-2, high=2) * (1 - at_read)
    branch = z[read] * v
    while True:
        dy = drawn(rng, 4, low=-6, high=6)
        centre, slope = mean(dy), mean(dy * y)
        dz = (dy - centre - y * slope) / std
        if centre.denominator == 1 and slope.denominator <= 3:
            break
    through = (dz @ v) * at_read
    return Drill(
        "A Post-LN block",
        "270_residual",
        "The branch reads entry r of x, counted from 0, and writes it along v: f(x) = xᵣ v. "
        "The block adds its input and normalises the sum: z = x + f(x), y = LN(z) with γ = 1, "
        "β = 0, ε = 0. The gradient of the loss with respect to y is ȳ.",
        {"x": z - branch, "r": read, "v": v, "ȳ": dy},
        (
            Step(
                "f(x), what the branch writes",
                branch,
                "f(x) is the entry that the branch reads, times v.",
                {"This is v alone.": v},
            ),
            Step(
                "z, what LayerNorm reads",
                z,
                "z = x + f(x).",
                {"The skip connection is left out.": branch},
            ),
            Step(
                "y",
                y,
                "y = (z − μ) / s with the mean and the standard deviation of z.",
                {
                    "The mean is not taken off.": z / std,
                    "This is not divided by s.": y * std,
                    "This is divided by the variance.": y / std,
                },
            ),
            Step(
                "z̄, the gradient of z",
                dz,
                "z̄ = (ȳ − mean(ȳ) − y mean(ȳ ⊙ y)) / s.",
                {
                    "Mean and variance are held fixed: this is ȳ / s.": dy / std,
                    "The mean term is left out.": (dy - y * slope) / std,
                    "The variance term is left out.": (dy - centre) / std,
                    "This is not divided by s.": dz * std,
                    "Sums stand where means belong.": (dy - sum(dy) - y * 4 * slope) / std,
                },
            ),
            Step(
                "what comes back through the branch",
                through,
                "The entry that the branch reads gets ⟨z̄, v⟩, the others get 0.",
                {
                    "This starts from ȳ; the branch stands before LayerNorm.": (dy @ v) * at_read,
                    "This sends the gradient through the branch forwards.": dz[read] * v,
                    "This is z̄ times v, entry by entry; the branch adds them up.": dz * v,
                },
            ),
            Step(
                "x̄, the gradient of x",
                dz + through,
                "x̄ = z̄ + what comes back through the branch: x is used twice.",
                {
                    "The skip connection is forgotten.": through,
                    "The branch is forgotten.": dz,
                    "The skip connection carries ȳ; it starts before LayerNorm, with z̄.": dy
                    + through,
                },
            ),
        ),
    )
