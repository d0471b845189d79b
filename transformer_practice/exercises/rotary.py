"""Chapter 520: rotary positions."""

import numpy as np

from transformer_core import ops
from transformer_core.layers import Rotary
from transformer_practice.engine.exercise import Exercise, LayerExercise, OpExercise, Theorem
from transformer_practice.engine.points import Point, normal, sampler
from transformer_practice.exercises.attention import relative
from transformer_practice.exercises.structure import given

SHUFFLED = np.array([9, 2, 40, 0, 7, 1, 13])


def points():
    draw = sampler(
        "B H T d_k",
        x="B H T d_k",
        positions=lambda T: SHUFFLED[:T],
        frequencies=lambda d_k: ops.rotary_frequencies(d_k, 50.0),
        halves=False,
        cotangent="B H T d_k",
    )
    generic = draw("generic", 2, 3, 5, 8)
    positions = generic.arguments["positions"]
    two = np.stack([positions, positions[::-1]])
    return [
        generic,
        generic.variant("halves", halves=True),
        generic.variant("position 0", positions=0 * positions),
        generic.variant("positions between whole numbers", positions=positions / 4),
        generic.variant("far positions", positions=positions + 100_000),
        generic.variant("positions of every sequence", positions=two[:, np.newaxis]),
        generic.variant("frequencies of 0", frequencies=np.array([1.0, 0.5, 0, 0])),
        draw("generic, other sizes", 3, 2, 7, 6),
        draw("one pair", 2, 3, 5, 2),
        draw("a head alone", 2, 3, 4, 6).sliced("no batch axes", (0, 0), "x"),
    ]


def lengths(point, outputs):
    """A rotation keeps the length of every row, forward and backward."""
    squares = [(a * a).sum(axis=-1) for a in (outputs["dx"], point.cotangent)]
    return relative(squares[0] - squares[1], squares[1])


def frequencies_points():
    llama = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 60,
    }

    point = given("width base scaling", lambda width, *others: {"d_k": width})
    return [
        point("generic", 12, 10000.0, None),
        point("another base", 12, 500.0, None),
        point("linear scaling", 12, 10000.0, {"rope_type": "linear", "factor": 4.0}),
        point("llama3 scaling", 12, 50.0, llama),
        point("one pair", 2, 10000.0, None),
        point("generic, other sizes", 20, 1000.0, None),
    ]


def order_points():
    point = given("width", lambda width: {"d_k": width})
    return [point("generic", 10), point("one pair", 2), point("generic, other sizes", 16)]


def drawing(build):
    """Return a function that draws a point of a layer that turns heads from a position on."""

    def draw(name, first, halves, *shape):
        arguments = {"self": build(shape[-1], halves), "x": normal(1, *shape), "first": first}
        sizes = dict(zip(("B", "H", "T", "d_k"), shape, strict=True))
        return Point(name, arguments, normal(2, *shape), sizes)

    return draw


def layer_points():
    draw = drawing(lambda d_k, halves: lambda dtype: Rotary(d_k, dtype, halves, 50.0))
    return [
        draw("generic", 3, False, 2, 3, 5, 8),
        draw("from position 0", 0, False, 2, 3, 5, 8),
        draw("halves", 3, True, 2, 3, 5, 8),
        draw("one position, while decoding", 7, False, 2, 3, 1, 8),
        draw("generic, other sizes", 6, False, 3, 2, 4, 6),
    ]


EXERCISES = [
    OpExercise(
        forward=ops.rotary,
        inputs=("x",),
        points=points,
        theorems=(Theorem("every row of dx is as long as that of dy", lengths),),
    ),
    Exercise(forward=ops.rotary_frequencies, points=frequencies_points),
    LayerExercise(
        forward=Rotary.forward,
        inputs=("x",),
        points=layer_points,
        theorems=(Theorem("every row of dx is as long as that of dy", lengths),),
    ),
    Exercise(forward=ops.pairs_to_halves, points=order_points),
]
