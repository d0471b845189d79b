"""Chapter 160: two linear layers with a ReLU between them."""

import numpy as np

from transformer_practice.drills.drill import Drill, Step
from transformer_practice.drills.exact import drawn, exact


def feed_forward(rng):
    """Draw a word and two small layers."""
    x, w1, b1 = drawn(rng, 2), drawn(rng, 2, 3, low=-2, high=2), drawn(rng, 3)
    w2, b2, dy = drawn(rng, 3, 2, low=-2, high=2), drawn(rng, 2), drawn(rng, 2)
    h = x @ w1 + b1
    on = exact(h > 0)
    a = h * on
    da = dy @ w2.T
    dh = da * on
    return Drill(
        "The feed-forward layer",
        "160_feed_forward",
        "One word goes through two linear layers with a ReLU between them: h = xW₁ + b₁, "
        "a = ReLU(h), y = aW₂ + b₂. The gradient of the loss with respect to y is ȳ.",
        {"x": x, "W₁": w1, "b₁": b1, "W₂": w2, "b₂": b2, "ȳ": dy},
        (
            Step(
                "h, what the three hidden units see",
                h,
                "h = xW₁ + b₁.",
                {"The bias is left out.": x @ w1},
            ),
            Step(
                "a, how strongly they are on",
                a,
                "ReLU(h) is h where h > 0, and 0 elsewhere.",
                {
                    "The negative numbers are still there.": h,
                    "The signs were dropped; negative numbers become 0.": abs(h),
                    "This says which units are on; a says how strongly.": on,
                },
            ),
            Step(
                "y",
                a @ w2 + b2,
                "y = aW₂ + b₂.",
                {
                    "The bias is left out.": a @ w2,
                    "The second layer reads h; it reads a.": h @ w2 + b2,
                },
            ),
            Step(
                "W̄₂, the gradient of the second weights",
                np.outer(a, dy),
                "W̄₂ = aᵀȳ: a unit that is off has a row of zeros.",
                {
                    "The second layer reads a; here it reads h.": np.outer(h, dy),
                    "This uses which units are on; use how strongly.": np.outer(on, dy),
                },
            ),
            Step("ā, the gradient of a", da, "ā = ȳW₂ᵀ."),
            Step(
                "h̄, the gradient of h",
                dh,
                "h̄ = ā ⊙ [h > 0]: what is off lets nothing back, what is on lets all of it back.",
                {
                    "The ReLU is left out: units that are off get a gradient.": da,
                    "The ReLU was applied to the gradient; it is h that decides.": np.maximum(
                        da, 0
                    ),
                    "This multiplies by a; the derivative of the ReLU is 0 or 1.": da * a,
                },
            ),
            Step(
                "x̄, the gradient of x",
                dh @ w1.T,
                "x̄ = h̄W₁ᵀ.",
                {"The gradient went around the ReLU.": da @ w1.T},
            ),
        ),
    )
