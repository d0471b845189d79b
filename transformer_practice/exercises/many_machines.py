"""Chapter 450: all-gather with its adjoint, and the norm of gradients that are in pieces."""

import numpy as np

from transformer_core.distributed.pieces import Cut, norm_of_pieces
from transformer_core.distributed.sequence_parallel import sequence_pair
from transformer_core.ranks import on_threads
from transformer_practice.engine.exercise import Exercise, OpExercise
from transformer_practice.engine.points import Point, normal, sampler
from transformer_practice.exercises.structure import same_products


def all_gather(x: np.ndarray) -> tuple[np.ndarray, None]:
    """Return what every rank holds after an all-gather (eq:all-gather)."""
    return over_ranks(lambda ranks: sequence_pair(ranks)[0].forward, x), None


def all_gather_backward(dy: np.ndarray, cache: None) -> np.ndarray:
    """Return the gradients of the pieces, dx (N, T, D) of dy (N, N T, D) (eq:reduce-scatter)."""
    return over_ranks(lambda ranks: sequence_pair(ranks)[0].backward, dy)


def over_ranks(collective, arrays):
    """Let each rank, a thread, call its part of a collective with an array of its own."""

    def work(ranks):
        (own,) = collective(ranks)(arrays[ranks.rank, np.newaxis])
        return own

    return np.stack(on_threads(len(arrays), work))


def gather_points():
    draw = sampler("N T D", x="N T D", cotangent=lambda N, T, D: normal(2, N, N * T, D))
    generic = draw("generic", 3, 5, 2)
    alone = np.zeros_like(generic.cotangent)
    alone[1] = normal(3, 15, 2)
    return [
        generic,
        generic.variant(
            "the same cotangent on every rank", cotangent=np.stack([generic.cotangent[0]] * 3)
        ),
        generic.variant("a cotangent on one rank alone", cotangent=alone),
        draw("one rank", 1, 5, 2),
        draw("as many ranks as rows", 4, 4, 3),
        draw("generic, other sizes", 2, 7, 3),
    ]


def by_sender(point):
    """What a rank's own cotangent gives it, and what those of the others do."""
    N, T, D = point.arguments["x"].shape
    parts = point.cotangent.reshape(N, N, T, D)
    own = np.stack([parts[rank, rank] for rank in range(N)])
    return {
        "what the rank itself has done with its piece": own,
        "what the other ranks have done with it": parts.sum(axis=0) - own,
    }


def norm_over_ranks(sharded: list, replicated: dict) -> float:
    """Return the norm of a gradient that lies on several ranks (eq:global-norm-sharded)."""

    def norm(ranks):
        own = {name: a for name, a in sharded[ranks.rank].items() if a.size}
        return norm_of_pieces(own | replicated, dict.fromkeys(own, Cut(0)), ranks)

    return on_threads(len(sharded), norm)[0]


def norm_points():
    def draw(name, *lengths):
        sharded = [
            {"output.weight": normal(10 + rank, length, 2)} for rank, length in enumerate(lengths)
        ]
        replicated = {"gamma": normal(1, 3), "beta": normal(2, 3)}
        arguments = {"sharded": sharded, "replicated": replicated}
        return Point(name, arguments, sizes={"N": len(lengths)})

    generic = draw("generic", 4, 5, 4)
    empty = [*generic.arguments["sharded"][:2], {"output.weight": np.zeros((0, 2))}]
    return [
        generic,
        generic.variant("nothing replicated", replicated={}),
        generic.variant("nothing sharded", sharded=[{}, {}, {}]),
        generic.variant("a rank with an empty piece", sharded=empty),
        generic.variant("one rank", sharded=generic.arguments["sharded"][:1]),
        draw("generic, other sizes", 3, 2),
    ]


EXERCISES = [
    OpExercise(
        forward=all_gather,
        inputs=("x",),
        points=gather_points,
        theorems=(
            same_products(
                "the inner product of y with its cotangent is that of x with its gradient",
                "x",
                of=all_gather,
            ),
        ),
        terms={"dx": by_sender},
    ),
    Exercise(forward=norm_over_ranks, points=norm_points, returns=("norm",)),
]
