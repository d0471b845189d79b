"""Chapter 470: the seconds of an all-reduce from two numbers."""

from transformer_core.distributed import cost
from transformer_practice.engine.exercise import Exercise
from transformer_practice.engine.points import Point


def all_reduce_seconds(
    ranks: int, nbytes: float, alpha: float, beta: float
) -> tuple[float, float, float]:
    """Return the seconds of a ring, of doubling, and of halving and doubling.

    They are eq:ring-seconds, eq:doubling-seconds and eq:halving-doubling-seconds.
    """
    network = cost.Network(alpha, beta)
    algorithms = cost.all_reduce, cost.recursive_doubling, cost.halving_doubling
    ring, doubling, halving = (each(ranks, nbytes).seconds(network) for each in algorithms)
    return ring, doubling, halving


def seconds_points():
    sizes = {"ranks": 16, "nbytes": 3000.0, "alpha": 0.7, "beta": 0.002}
    generic = Point("generic", sizes, sizes=sizes)
    other = {"ranks": 8, "nbytes": 500.0, "alpha": 0.3, "beta": 0.01}
    return [
        generic,
        generic.variant("one rank", ranks=1),
        generic.variant("two ranks", ranks=2),
        generic.variant("no latency", alpha=0.0),
        generic.variant("an empty array", nbytes=0.0),
        Point("generic, other sizes", other, sizes=other),
    ]


EXERCISES = [
    Exercise(
        forward=all_reduce_seconds, returns=("ring", "doubling", "halving"), points=seconds_points
    )
]
