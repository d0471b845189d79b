"""Chapter 580: one row of scores in two tiles."""

from fractions import Fraction

from transformer_practice.drills.exact import drawn, exact

EXPONENTIALS = [(1, 2, 4, 1), (1, 2, 3, 1), (1, 2, 3, 2), (2, 2, 3, 1), (1, 1, 4, 2), (1, 1, 5, 1)]


def tiled_attention(rng):
    """Draw four scores, the largest in the second tile, four values and two cotangents."""
    *first, large, small = rng.choice(EXPONENTIALS)
    second = exact(rng.sample([large, small], 2))
    first = exact(rng.sample(first, 2))
    values, cotangent = drawn(rng, 4), Fraction(rng.choice([2, 3, -2, -3]))
    extra = Fraction(rng.choice([1, 2, -1, -2]))
    e = exact([*first, *second])
    total, top = sum(e), max(second)
    weights = e / total
    output = sum(weights * values)
    coupling = cotangent * output
    scores = weights * (cotangent * values - coupling)
    parts = [sum(part * v) / sum(part) for part, v in ((first, values[:2]), (second, values[2:]))]
    given = {"E": e, "v": values, "g": cotangent, "u": extra}
    return given, [
        [sum(first) / max(first), sum(first), sum(first) / top],
        [max(first) / top, top / max(first), Fraction(1)],
        [total / top, sum(first) / max(first) + sum(second) / top, total],
        [output, sum(parts) / 2, sum(e * values) / top],
        [coupling, sum(weights * weights), output],
        [scores, weights * cotangent * values, weights * (cotangent * values - output)],
        [scores + weights * extra, scores - weights * extra, scores + extra],
    ]
