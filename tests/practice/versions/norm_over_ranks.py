"""The norm over ranks as different readers write it."""

import numpy as np


class Squares:
    """The squares of all that there is, and one root."""

    def forward(sharded, replicated):
        squares = sum((g**2).sum() for g in replicated.values())
        for pieces in sharded:
            squares += sum((g**2).sum() for g in pieces.values())
        return float(np.sqrt(squares))


class RankByRank:
    """A norm for each rank, and the norm of these norms."""

    def forward(sharded, replicated):
        def norm(arrays):
            return np.linalg.norm([np.linalg.norm(a) for a in arrays.values()])

        norms = [norm(pieces) for pieces in sharded]
        return np.linalg.norm([*norms, norm(replicated)])


class OneVector:
    """All numbers in one array, as one machine would hold them."""

    def forward(sharded, replicated):
        arrays = [a for rank in sharded for a in rank.values()]
        flat = np.concatenate([a.ravel() for a in [*arrays, *replicated.values()]])
        return (flat @ flat) ** 0.5


RIGHT = {"norm_over_ranks": [Squares, RankByRank, OneVector]}

PLANTED = [
    (
        Squares,
        "norm-counts-copies",
        {
            "squares = sum((g**2).sum() for g in replicated.values())": "squares = 0.0",
            "for g in pieces.values()": "for g in (pieces | replicated).values()",
        },
    ),
    (
        RankByRank,
        "norm-counts-copies",
        {
            "norm(pieces) for": "norm(pieces | replicated) for",
            "[*norms, norm(replicated)]": "norms",
        },
    ),
    (
        OneVector,
        "norm-counts-copies",
        {
            "for a in rank.values()": "for a in [*rank.values(), *replicated.values()]",
            "[*arrays, *replicated.values()]": "arrays",
        },
    ),
    (
        Squares,
        "norm-of-one-rank",
        {"for pieces in sharded": "for pieces in sharded[:1]"},
    ),
    (
        OneVector,
        "norm-of-one-rank",
        {"for a in rank.values()": "for a in rank.values() if rank is sharded[0]"},
    ),
    (
        RankByRank,
        "sharded-norm-largest",
        {"[*norms, norm(replicated)]": "[max(norms), norm(replicated)]"},
    ),
    (
        RankByRank,
        "sharded-norm-largest",
        {
            "norm(pieces) for": "norm(pieces | replicated) for",
            "np.linalg.norm([*norms, norm(replicated)])": "max(norms)",
        },
    ),
    (
        RankByRank,
        "sharded-norm-largest",
        {"np.linalg.norm([*norms, norm(replicated)])": "sum(norms) + norm(replicated)"},
    ),
    (
        RankByRank,
        "sharded-norm-largest",
        {"[*norms, norm(replicated)]": "[sum(norms), norm(replicated)]"},
    ),
    (
        RankByRank,
        "sharded-norm-largest",
        {
            "norm(pieces) for": "norm(pieces | replicated) for",
            "np.linalg.norm([*norms, norm(replicated)])": "sum(norms)",
        },
    ),
]

UNKNOWN = [
    (
        OneVector,
        "what is replicated is left out",
        {"[*arrays, *replicated.values()]": "arrays"},
    ),
    (OneVector, "no root", {"** 0.5": "** 1.0"}),
    (
        Squares,
        "the mean of the ranks' squares",
        {"np.sqrt(squares)": "np.sqrt(squares / len(sharded))"},
    ),
]
