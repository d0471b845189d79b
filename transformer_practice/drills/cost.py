"""Chapter 410: the operations and the parameters of one encoder layer."""


def cost(rng):
    """Draw the sizes of a layer."""
    t, d, f = rng.randint(3, 6), rng.choice([2, 3, 4]), rng.choice([5, 6, 8, 10])
    projections, pairs, forward_layer = 8 * t * d**2, 4 * t**2 * d, 4 * t * d * f
    total = projections + pairs + forward_layer
    weights = 4 * d**2 + 2 * d * f
    return {"T": t, "D": d, "F": f}, [
        [projections, projections // 2, 6 * t * d**2, 2 * t * d**2],
        [pairs, pairs // 2, 4 * t * d],
        [forward_layer, forward_layer // 2, 4 * t * d**2],
        [total, projections + forward_layer],
        [3 * total, 2 * total],
        [2 * projections + 4 * pairs + 2 * forward_layer, 2 * total, 4 * total],
        [weights, 4 * d**2 + d * f, 3 * d**2 + 2 * d * f, t * weights],
    ]
