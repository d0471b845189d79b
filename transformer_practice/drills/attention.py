"""Chapter 210: one query of attention, forward and backward."""

import numpy as np

from transformer_practice.drills.exact import drawn
from transformer_practice.drills.softmax import broken_couplings, exponentials


def attention(rng):
    """Draw one query, three keys and three values."""
    while True:
        key, query = drawn(rng, 3, 4, low=0, high=1), drawn(rng, 4, low=-2, high=2)
        scores = key @ query / 2
        value, doutput = drawn(rng, 3, 2, low=-4, high=4), drawn(rng, 2)
        if (
            len(set(map(tuple, key))) == 3
            and min(scores) == 0
            and 0 < max(scores) <= 3
            and all(score.denominator == 1 for score in scores)
        ):
            powers = exponentials(scores)
            weights = powers / sum(powers)
            output = weights @ value
            if (output @ doutput).denominator == 1:
                break
    dweights = value @ doutput
    dscores = weights * (dweights - output @ doutput)
    dquery = dscores @ key / 2
    return {"q / ln 2": query, "K": key, "V": value, "ō": doutput}, [
        [scores, key @ query, key @ query / 4],
        [weights, powers, scores / sum(scores)],
        [output, sum(value) / 3, sum(value)],
        [np.outer(weights, doutput), [doutput] * 3, [doutput / 3] * 3],
        [dweights, dweights - output @ doutput],
        [dscores, *broken_couplings(weights, dweights)],
        [dquery, 2 * dquery, dquery / 2, weights @ key / 2],
        [dscores[0] * query / 2, dscores[0] * query, weights[0] * query / 2],
    ]
