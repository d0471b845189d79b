"""Chapter 570: a distribution is heated, cut, drawn from and penalised."""

from fractions import Fraction

from transformer_practice.drills.exact import exact

LOGITS = (0, 0, 1, 2), (0, 0, 0, 1, 2)  # in units of ln 2, in some order and from some zero on
THETA = 2


def sampling(rng):
    """Draw logits, which tokens the text has, a share and a number to draw a token with."""
    logits = list(rng.choice(LOGITS))
    rng.shuffle(logits)
    shift = rng.choice((-2, -1, -1))
    m = exact([logit + shift for logit in logits])
    seen = exact([int(rng.random() < 0.6) for _ in logits])
    share = Fraction(rng.choice(("3/5", "5/8")))
    u = Fraction(rng.choice(("1/4", "1/2", "3/4", "1/10", "9/10")))
    powers = exact([Fraction(2) ** int(each) for each in m])
    p = powers / powers.sum()
    kept = p * exact([int(p[p > each].sum() < share) for each in p])
    best = exact([int(each == p.max()) for each in p])
    divided = exact([each / THETA if s else each for each, s in zip(m, seen, strict=True)])
    everywhere = exact([each / THETA if each > 0 else each * THETA for each in m])
    right = exact([e if s else each for each, e, s in zip(m, everywhere, seen, strict=True)])
    token = place_of(kept / kept.sum(), u)
    return {"z / ln 2": m, "seen": seen, "ρ": share, "r": u}, [
        [p, powers],
        [powers**2 / (powers**2).sum(), p**2, p * THETA],
        [kept / kept.sum(), kept, best],
        [token, place_of(p, u), token + 1],
        [right, divided, everywhere],
    ]


def place_of(p, u):
    """Return the first place up to which the sum of probabilities is above u."""
    return next(place for place in range(len(p)) if p[: place + 1].sum() > u)
