"""Chapter 280: what grows and what fades from layer to layer."""

import numpy as np

from transformer_practice.engine.exercise import Exercise
from transformer_practice.engine.points import Point, normal


def divide_outputs(parameters, branches):
    """Divide the weights at the end of each branch by the root of the number of branches."""
    scale = np.sqrt(branches)
    return {
        name: array / scale if name.endswith("output.weight") else array
        for name, array in parameters.items()
    }


def output_points():
    parameters = {
        "layer_0.attention.branch.query_key_value.weight": normal(1, 4, 12),
        "layer_0.attention.branch.output.weight": normal(2, 4, 4),
        "layer_0.attention.branch.output.bias": normal(3, 4),
        "layer_0.attention.norm.gamma": normal(4, 4),
        "layer_0.feed_forward.branch.hidden.weight": normal(5, 4, 7),
        "layer_0.feed_forward.branch.output.weight": normal(6, 7, 4),
        "layer_0.feed_forward.branch.output.bias": normal(7, 4),
    }
    others = {
        "layer_1.attention.branch.output.weight": normal(8, 3, 2),
        "layer_1.attention.norm.gamma": normal(9, 3),
    }
    generic = Point("generic", {"parameters": parameters, "branches": 7})
    return [
        generic,
        generic.variant("one branch", branches=1),
        Point("generic, other sizes", {"parameters": others, "branches": 3}),
    ]


EXERCISES = [Exercise(forward=divide_outputs, points=output_points)]
