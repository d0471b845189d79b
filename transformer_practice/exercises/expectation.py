"""Appendix 940: moments of what dropout does, and how sure a mean is."""

from math import sqrt

import numpy as np

from transformer_practice.engine.exercise import Exercise
from transformer_practice.engine.points import normal, sampler


def masked_sum(x: np.ndarray, p: float) -> tuple[float, float]:
    """Return mean and variance of the sum of x after dropout, over all masks."""
    return float(x.sum()), float(p / (1 - p) * (x**2).sum())


def mean_and_error(runs: np.ndarray) -> tuple[float, float]:
    """Return the mean of at least two runs, and the estimated standard deviation of that mean."""
    mean = runs.mean()
    variance = ((runs - mean) ** 2).sum() / (len(runs) - 1)
    return float(mean), sqrt(variance / len(runs))


def masked_points():
    draw = sampler("D p", x="D", p=lambda p: p, sizes={"1 - p": lambda p: 1 - p})
    generic = draw("generic", 5, 0.3)
    x = generic.arguments["x"]
    return [
        generic,
        generic.variant("nothing dropped", p=0.0),
        generic.variant("half dropped", p=0.5),
        generic.variant("one entry", x=x[:1]),
        generic.variant("a sum of 0", x=x - x.mean()),
        draw("generic, other sizes", 3, 0.8),
    ]


def runs_points():
    draw = sampler("n", runs=lambda n: 4 + normal(1, n))
    generic = draw("generic", 5)
    runs = generic.arguments["runs"]
    return [
        generic,
        generic.variant("mean 0", runs=runs - runs.mean()),
        generic.variant("two runs", runs=runs[:2]),
        generic.variant("equal runs", runs=np.full(5, 2.0)),
        draw("generic, other sizes", 9),
    ]


EXERCISES = [
    Exercise(forward=masked_sum, returns=("mean", "variance"), points=masked_points),
    Exercise(forward=mean_and_error, returns=("mean", "error"), points=runs_points),
]
