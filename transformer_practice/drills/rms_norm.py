"""Chapter 510: RMSNorm and the two terms of its gradient."""

from transformer_practice.drills.exact import drawn, exact, mean


def rms_norm(rng):
    """Draw a row with a whole root mean square."""
    row = rng.sample(rng.choice([[5, 3, 1, 1], [4, 4, 2, 0]]), 4)
    x_hat, s = exact([rng.choice([-1, 1]) * number for number in row]) / 3, rng.choice([3, 6])
    while True:
        gamma, dy = drawn(rng, 4, low=1), drawn(rng, 4)
        g = dy * gamma
        slope = mean(g * x_hat)
        if slope.denominator <= 3:
            break
    plain = dy - x_hat * mean(dy * x_hat)
    return {"x": s * x_hat, "γ": gamma, "ȳ": dy}, [
        [s, s**2, 2 * s],
        [x_hat, x_hat / s, (s * x_hat - mean(s * x_hat)) / s],
        [g, dy],
        [slope, 4 * slope, mean(dy * x_hat)],
        [
            (g - x_hat * slope) / s,
            gamma * plain / s,
            plain / s,
            (g - mean(g) - x_hat * slope) / s,
            g / s,
            (g - x_hat * 4 * slope) / s,
            (g + x_hat * slope) / s,
        ],
        [dy * x_hat, dy * gamma * x_hat, dy * s * x_hat],
    ]
