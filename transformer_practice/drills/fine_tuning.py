"""Chapter 620: a frozen layer with an adapter, forward and backward."""

from fractions import Fraction

from transformer_practice.drills.exact import drawn


def fine_tuning(rng):
    """Draw two words, a frozen weight, an adapter of rank 2, and its constant."""
    x, w = drawn(rng, 2, 3), drawn(rng, 3, 2, low=-2, high=2)
    a, b = drawn(rng, 3, 2, low=-1, high=2), drawn(rng, 2, 2, low=-2, high=2)
    dy, alpha = drawn(rng, 2, 2, low=-2, high=2), rng.choice((1, 3, 5))
    s = Fraction(alpha, 2)
    u, du = x @ a, s * dy @ b.T
    return {"X": x, "W": w, "A": a, "B": b, "α": alpha, "Ȳ": dy}, [
        [u, x @ w],
        [x @ w + s * u @ b, x @ w + alpha * u @ b, x @ w + u @ b, s * u @ b],
        [s * u.T @ dy, u.T @ dy, alpha * u.T @ dy, s * dy.T @ u],
        [du, dy @ b.T, s * dy @ b, alpha * dy @ b.T],
        [x.T @ du, x.T @ (dy @ b.T), s * x.T @ du],
        [dy @ w.T + du @ a.T, dy @ w.T, du @ a.T],
    ]
