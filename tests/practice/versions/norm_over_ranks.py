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
