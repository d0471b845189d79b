"""Chapter 410: the operations and the parameters of one encoder layer."""

from transformer_practice.drills.drill import Drill, Step


def cost(rng):
    """Draw the sizes of a layer."""
    t, d, f = rng.randint(3, 6), rng.choice([2, 3, 4]), rng.choice([5, 6, 8, 10])
    projections, pairs, forward_layer = 8 * t * d**2, 4 * t**2 * d, 4 * t * d * f
    total = projections + pairs + forward_layer
    weights = 4 * d**2 + 2 * d * f
    return Drill(
        "What a layer costs",
        "410_cost",
        "One encoder layer reads one sentence of T words. The model is D wide, and its "
        "feed-forward layer F. Count the operations of its matrix products: an addition is one, "
        "and a multiplication is one.",
        {"T": t, "D": d, "F": f},
        (
            Step(
                "operations of the four projections",
                projections,
                "Four products of (T, D) with (D, D), each 2TD² operations.",
                {
                    "Additions are left out: a product (m, n) with (n, p) takes 2mnp.": (
                        projections // 2
                    ),
                    "There are four: for queries, keys, values and the output.": 6 * t * d**2,
                    "This is one projection; there are four.": 2 * t * d**2,
                },
            ),
            Step(
                "operations of the scores and of the averages of the values",
                pairs,
                "(T, D) with (D, T), and (T, T) with (T, D): 2T²D operations each, whatever the "
                "number of heads.",
                {
                    "Additions are left out: a product (m, n) with (n, p) takes 2mnp.": pairs // 2,
                    "T comes in as a square: each word meets each word.": 4 * t * d,
                },
            ),
            Step(
                "operations of the feed-forward layer",
                forward_layer,
                "(T, D) with (D, F), and (T, F) with (F, D): 2TDF operations each.",
                {
                    "This is half: additions or the second product are left out.": (
                        forward_layer // 2
                    ),
                    "F is taken for D: the hidden layer is F wide.": 4 * t * d**2,
                },
            ),
            Step(
                "operations forward, in all",
                total,
                "The sum of the three parts.",
                {"The pairs are left out.": projections + forward_layer},
            ),
            Step(
                "operations of a training step, forward and backward",
                3 * total,
                "The backward pass of a product is two products of the same size: 3 times the "
                "forward pass.",
                {"This is twice; a product has two factors, and a gradient for each.": (2 * total)},
            ),
            Step(
                "operations forward, for a sentence twice as long",
                2 * projections + 4 * pairs + 2 * forward_layer,
                "Twice T: what has T doubles, what has T² is four times as much.",
                {
                    "Everything doubles here; the pairs are four times as many.": 2 * total,
                    "Everything is four times as much here; only the pairs are.": 4 * total,
                },
            ),
            Step(
                "weights in the six matrices",
                weights,
                "4D² + 2DF: a weight does not depend on T.",
                {
                    "The feed-forward layer has two matrices.": 4 * d**2 + d * f,
                    "There are four projections.": 3 * d**2 + 2 * d * f,
                    "Weights do not depend on T.": t * weights,
                },
            ),
        ),
    )
