"""Chapter 610: the pooler's weight as a file stores it, and the gradient of the pooler."""

from fractions import Fraction

from transformer_practice.drills.exact import drawn, exact


def weights(rng):
    """Draw the matrix of a file, the vectors of two tokens, and what tanh has returned."""
    f, h = drawn(rng, 2, 2), drawn(rng, 2, 2)
    y = exact([Fraction(rng.choice([-3, -2, -1, 1, 2, 3]), 4) for _ in range(2)])
    dy = drawn(rng, 2, low=-4, high=4)
    w, slope = f.T, 1 - y**2
    du = dy * slope
    dw, dfirst = h[:1].T * du, du @ w.T
    return {"F": f, "H": h, "y": y, "ȳ": dy}, [
        [w, f],
        [slope, y * (1 - y), y**2, 1 - y],
        [du, dy * y, dy],
        [dw, dw.T, h.sum(axis=0)[:, None] * du, h[:1].T * dy],
        [dw.T, dw],
        [[dfirst, [0, 0]], [dfirst, dfirst], [[0, 0], dfirst], [du @ w, [0, 0]]],
    ]
