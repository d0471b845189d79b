"""Chapter 240: two steps of momentum, and two of Adam."""

from fractions import Fraction
from math import isqrt

import numpy as np

from transformer_practice.drills.drill import Drill, Step
from transformer_practice.drills.exact import exact


def root(number):
    """The root of a fraction, or None where it is no fraction."""
    found = Fraction(isqrt(number.numerator), isqrt(number.denominator))
    return found if found**2 == number else None


# Decays and sizes of two gradients whose second root mean square in Adam is a fraction.
WHOLE = [
    (beta, one, two)
    for beta in (Fraction(1, 2), Fraction(3, 4))
    for one in range(1, 10)
    for two in range(1, 10)
    if one != two and root((beta * one**2 + two**2) / (1 + beta)) is not None
]


def optimizers(rng):
    """Draw two gradients whose root mean square in Adam is a fraction."""
    beta2, *sizes = rng.choice(WHOLE)
    g = exact([size * rng.choice([-1, 1]) for size in sizes])
    mu, beta1 = Fraction(1, rng.randint(2, 3)), Fraction(1, 2)
    rate, theta = Fraction(1, rng.choice([2, 4, 10])), rng.randint(-2, 3)
    b = exact([g[0], mu * g[0] + g[1]])

    def averages(beta, of):
        first = (1 - beta) * of[0]
        return exact([first, beta * first + (1 - beta) * of[1]])

    def corrected(beta, average):
        return average / [1 - beta, 1 - beta**2]

    m, v = averages(beta1, g), averages(beta2, g * g)
    m_hat, v_hat = corrected(beta1, m), corrected(beta2, v)
    step = m_hat / [root(entry) for entry in v_hat]
    return Drill(
        "Momentum and Adam",
        "240_optimizers",
        "One parameter starts at θ₀ and has the gradients g = (g₁, g₂) in two steps with the "
        "learning rate η. First momentum with μ, then, from θ₀ again, Adam with β₁ and β₂ and "
        "ε = 0. All averages start at 0. Answer with two numbers, one for each step.",
        {"g": g, "θ₀": theta, "η": rate, "μ": mu, "β₁": beta1, "β₂": beta2},
        (
            Step(
                "momentum: b₁, b₂",
                b,
                "bₜ = μ bₜ₋₁ + gₜ.",
                {
                    "The new gradient counts in full, not 1 − μ of it.": averages(mu, g),
                    "The old velocity is forgotten.": g,
                    "The old velocity is kept in full; μ of it stays.": np.cumsum(g),
                },
            ),
            Step(
                "momentum: θ₁, θ₂",
                theta - rate * np.cumsum(b),
                "θₜ = θₜ₋₁ − η bₜ.",
                {
                    "This climbs; a step goes against the velocity.": theta + rate * np.cumsum(b),
                    "The second step starts at θ₀ again.": theta - rate * b,
                    "The learning rate is left out.": theta - np.cumsum(b),
                    "This steps along the gradients, without momentum.": theta
                    - rate * np.cumsum(g),
                },
            ),
            Step(
                "Adam: m₁, m₂",
                m,
                "mₜ = β₁ mₜ₋₁ + (1 − β₁) gₜ.",
                {
                    "The new gradient counts 1 − β₁, not in full.": m / (1 - beta1),
                    "This is corrected already.": m_hat,
                },
            ),
            Step(
                "Adam: v₁, v₂",
                v,
                "vₜ = β₂ vₜ₋₁ + (1 − β₂) gₜ².",
                {
                    "The gradients are not squared.": averages(beta2, g),
                    "The new square counts 1 − β₂, not in full.": v / (1 - beta2),
                    "This is corrected already.": v_hat,
                },
            ),
            Step(
                "Adam: m̂₁, m̂₂",
                m_hat,
                "m̂ₜ = mₜ / (1 − β₁ᵗ).",
                {
                    "The correction of the first step stands at both; the power is t.": m
                    / (1 - beta1),
                    "This is not corrected.": m,
                },
            ),
            Step(
                "Adam: v̂₁, v̂₂",
                v_hat,
                "v̂ₜ = vₜ / (1 − β₂ᵗ).",
                {
                    "The correction of the first step stands at both; the power is t.": v
                    / (1 - beta2),
                    "This is not corrected.": v,
                },
            ),
            Step(
                "Adam: what is subtracted, over η",
                step,
                "m̂ₜ / √v̂ₜ: the mean over the root mean square.",
                {
                    "The root is left out.": m_hat / v_hat,
                    "This is the sign of the gradients; Adam's second step is another.": g / abs(g),
                },
            ),
            Step(
                "Adam: θ₁, θ₂",
                theta - rate * np.cumsum(step),
                "θₜ = θₜ₋₁ − η m̂ₜ / √v̂ₜ.",
                {
                    "This climbs; a step goes against the gradient.": theta
                    + rate * np.cumsum(step),
                    "The second step starts at θ₀ again.": theta - rate * step,
                    "The learning rate is left out.": theta - np.cumsum(step),
                },
            ),
        ),
    )
