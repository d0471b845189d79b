"""The outer step as different readers write it."""

import numpy as np


class Formula:
    """The equation line by line."""

    def forward(shared, velocity, ends, weights, learning_rate, momentum):
        shares = weights / weights.sum()
        delta = shared - np.tensordot(shares, ends, axes=1)
        velocity = momentum * velocity + delta
        return shared - learning_rate * (delta + momentum * velocity), velocity


class RankByRank:
    """A loop over the ways back, and the step in two parts."""

    def forward(shared, velocity, ends, weights, learning_rate, momentum):
        delta = np.zeros_like(shared)
        for end, weight in zip(ends, weights, strict=True):
            delta += weight / weights.sum() * (shared - end)
        new_velocity = momentum * velocity + delta
        new = shared - learning_rate * delta
        new -= learning_rate * momentum * new_velocity
        return new, new_velocity


RIGHT = {"outer_step": [Formula, RankByRank]}

PLANTED = [
    (
        Formula,
        "local-outer-step-backwards",
        {
            "shared - np.tensordot(shares, ends, axes=1)": (
                "np.tensordot(shares, ends, axes=1) - shared"
            )
        },
    ),
    (RankByRank, "local-outer-step-backwards", {"(shared - end)": "(end - shared)"}),
    (
        Formula,
        "local-deltas-summed",
        {"shared - np.tensordot(shares, ends, axes=1)": "(shared - ends).sum(axis=0)"},
    ),
    (RankByRank, "local-deltas-summed", {"weight / weights.sum() * (": "("}),
    (RankByRank, "local-deltas-summed", {"weight / weights.sum() * (": "weight * ("}),
    (
        Formula,
        "local-weights-ignored",
        {"np.tensordot(shares, ends, axes=1)": "ends.mean(axis=0)"},
    ),
    (
        RankByRank,
        "local-weights-ignored",
        {"weight / weights.sum()": "1 / len(ends)"},
    ),
    (
        Formula,
        "local-not-nesterov",
        {"(delta + momentum * velocity)": "velocity"},
    ),
    (
        RankByRank,
        "local-not-nesterov",
        {"momentum * new_velocity": "momentum * velocity"},
    ),
    (
        Formula,
        "local-momentum-of-the-parameters",
        {"momentum * velocity + delta": "momentum * velocity + shared"},
    ),
    (
        RankByRank,
        "local-ranks-go-on-from-their-own",
        {"return new, new_velocity": "return ends[0], new_velocity"},
    ),
]

UNKNOWN = [
    (Formula, "uphill", {"return shared - ": "return shared + "}),
    (
        Formula,
        "the momentum is left out of the step",
        {"(delta + momentum * velocity)": "(delta + velocity)"},
    ),
    (
        RankByRank,
        "the rate in the velocity",
        {"velocity + delta": "velocity + learning_rate * delta"},
    ),
    (
        Formula,
        "the weights do not sum to 1",
        {"shares = weights / weights.sum()": "shares = weights / len(weights)"},
    ),
    (
        RankByRank,
        "the old velocity is returned",
        {"return new, new_velocity": "return new, velocity"},
    ),
]
