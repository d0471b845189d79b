"""Chapter 630: one vector for a text, its length, and the gradient back to the words."""

from transformer_practice.drills.exact import drawn, exact


def search(rng):
    """Draw two words whose mean has a whole length, and a padded position."""
    scale = rng.choice([1, 2])
    row = exact([rng.choice([-1, 1]) * n for n in rng.sample([1, 2, 2], 3)])
    length = exact(3 * scale)
    x, apart, padding = scale * row, drawn(rng, 3), drawn(rng, 3)
    y = x / length
    while True:
        dy = drawn(rng, 3)
        along = sum(y * dy)
        if along.denominator == 1:
            break
    dx = (dy - along * y) / length
    return {"h₀": x + apart, "h₁": x - apart, "h₂": padding, "ȳ": dy}, [
        [x, (2 * x + padding) / 3, 2 * x / 3, 2 * x],
        [length, length**2, sum(abs(x))],
        [y, x / length**2],
        [along, sum(x * dy), sum(dy)],
        [dx, dy / length, dy - along * y, (dy + along * y) / length, (dy - along * x) / length],
        [dx / 2, dx, dx / 3],
    ]
