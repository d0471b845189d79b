"""Chapter 130: softmax and its backward pass."""

from transformer_practice.drills.exact import drawn, exact, mean


def exponentials(multiples):
    """The exponentials of whole multiples of ln 2."""
    return exact(2**multiples)


def broken_couplings(a, da):
    """What people take for a ⊙ (ā − ⟨ā, a⟩)."""
    return [
        a * da,
        a * (1 - a) * da,
        da - sum(a * da),
        a * (da - sum(da)),
        a * (da - mean(da)),
        a * (da - a * sum(da)),
    ]


def softmax(rng):
    """Draw three scores in whole multiples of ln 2."""
    multiples = drawn(rng, 3, low=0, high=3)
    powers = exponentials(multiples)
    weights = powers / sum(powers)
    dweights = drawn(rng, 3, low=-7, high=7)
    while sum(weights * dweights).denominator > 1:
        dweights = drawn(rng, 3, low=-7, high=7)
    return {"x / ln 2": multiples, "ā": dweights}, [
        [powers, multiples, multiples * 2],
        [weights, powers / max(powers), powers],
        [sum(weights * dweights), sum(dweights), mean(dweights)],
        [weights * (dweights - sum(weights * dweights)), *broken_couplings(weights, dweights)],
    ]
