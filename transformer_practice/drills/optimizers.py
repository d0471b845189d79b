"""Chapter 240: two steps of momentum, and two of Adam."""

from fractions import Fraction
from math import isqrt

import numpy as np

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
    return {"g": g, "θ₀": theta, "η": rate, "μ": mu, "β₁": beta1, "β₂": beta2}, [
        [b, averages(mu, g), g, np.cumsum(g)],
        [
            theta - rate * np.cumsum(b),
            theta + rate * np.cumsum(b),
            theta - rate * b,
            theta - np.cumsum(b),
            theta - rate * np.cumsum(g),
        ],
        [m, m / (1 - beta1), m_hat],
        [v, averages(beta2, g), v / (1 - beta2), v_hat],
        [m_hat, m / (1 - beta1), m],
        [v_hat, v / (1 - beta2), v],
        [step, m_hat / v_hat, g / abs(g)],
        [
            theta - rate * np.cumsum(step),
            theta + rate * np.cumsum(step),
            theta - rate * step,
            theta - np.cumsum(step),
        ],
    ]
