"""Chapter 150: LayerNorm and the three terms of its gradient."""

from transformer_practice.drills.exact import drawn, exact, mean


def normalised(rng):
    """A row of mean 0 and mean square 1, and a standard deviation that makes it whole."""
    row = exact(rng.sample(rng.choice([[1, 1, 3, -5], [-1, -1, -3, 5]]), 4))
    return row / 3, rng.choice([3, 6])


def layer_norm(rng):
    """Draw a row with a whole mean and a whole standard deviation."""
    x_hat, std = normalised(rng)
    deviation, mu = x_hat * std, rng.choice([-3, -2, -1, 1, 2, 3])
    while True:
        gamma, dy = drawn(rng, 4, low=1), drawn(rng, 4)
        g = dy * gamma
        centre, slope = mean(g), mean(g * x_hat)
        if centre.denominator == 1 and slope.denominator <= 3:
            break
    plain = dy - mean(dy) - x_hat * mean(dy * x_hat)
    return {"x": deviation + mu, "γ": gamma, "ȳ": dy}, [
        [mu, 4 * mu],
        [std, std**2, 2 * std],
        [x_hat, (deviation + mu) / std, deviation, deviation / std**2],
        [g, dy],
        [centre, sum(g), mean(dy)],
        [slope, 4 * slope, mean(dy * x_hat)],
        [
            (g - centre - x_hat * slope) / std,
            gamma * plain / std,
            plain / std,
            (g - x_hat * slope) / std,
            (g - centre) / std,
            g / std,
            (g - sum(g) - x_hat * 4 * slope) / std,
            (g - centre + x_hat * slope) / std,
        ],
        [dy * x_hat, dy * gamma * x_hat, dy * (deviation + mu)],
    ]
