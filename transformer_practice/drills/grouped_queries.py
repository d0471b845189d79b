"""Chapter 540: what is shared, kept, seen and capped."""

from fractions import Fraction

from transformer_practice.drills.exact import drawn


def grouped_queries(rng):
    """Draw the gradients of four heads, the sizes of a model, a window and a cap."""
    alone = drawn(rng, 4, 2, low=-6, high=6)
    sums, turns = alone[::2] + alone[1::2], alone[:2] + alone[2:]
    layers, width, n = rng.randint(2, 5), rng.choice([2, 3]), rng.randint(7, 9)
    window, later, cap = rng.randint(3, 6), rng.randint(1, 4), rng.randint(3, 6)
    t, y = window + later, rng.randint(1, cap - 1)
    per_position = layers * 2 * 2 * width
    given = {"A": alone, "L": layers, "d": width, "N": n, "w": window, "t": t, "c": cap, "y": y}
    return given, [
        [sums, sums / 2, turns, alone[::2]],
        [per_position * n, 2 * per_position * n, per_position * n // 2, 4 * width * n],
        [window, window + 1, t + 1],
        [layers * (window - 1), layers * window, window - 1],
        [per_position * window, per_position * n, per_position * (window - 1)],
        [1 - Fraction(y * y, cap * cap), Fraction(y * y, cap * cap), 1 - Fraction(y, cap)],
    ]
