"""Chapter 215: masks."""

import numpy as np

from transformer_core import ops
from transformer_practice.engine.exercise import Exercise
from transformer_practice.engine.points import Point


def causal_points():
    return [
        Point("generic", {"length": 5}, sizes={"T": 5}),
        Point("one position", {"length": 1}),
        Point("generic, other sizes", {"length": 3}, sizes={"T": 3}),
    ]


def padding_points():
    lengths = np.array([4, 1, 5, 0, 3])
    return [
        Point("generic", {"lengths": lengths, "length": 7}, sizes={"B": 5, "S": 7}),
        Point("no padding", {"lengths": np.array([7, 7]), "length": 7}),
        Point("an empty sequence", {"lengths": np.array([0]), "length": 2}),
        Point(
            "generic, other sizes",
            {"lengths": np.array([2, 3]), "length": 4},
            sizes={"B": 2, "S": 4},
        ),
    ]


EXERCISES = [
    Exercise(forward=ops.causal_keep, points=causal_points),
    Exercise(forward=ops.padding_keep, points=padding_points),
]
