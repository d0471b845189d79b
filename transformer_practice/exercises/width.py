"""Chapter 285: learning rates that a wider model keeps."""

from transformer_practice.engine.exercise import Exercise
from transformer_practice.engine.points import Point, normal


def width_rates(parameters, narrow, rate):
    """Return the learning rate of each array of a wide model, tuned on a narrow one."""
    return {
        name: rate * narrow[name].shape[0] / array.shape[0] if array.ndim == 2 else rate
        for name, array in parameters.items()
    }


def rate_points():
    wide = {
        "embedding": normal(1, 11, 12),
        "hidden.weight": normal(2, 12, 24),
        "hidden.bias": normal(3, 24),
        "output.weight": normal(4, 24, 12),
        "norm.gamma": normal(5, 12),
        "readout.weight": normal(6, 12, 5),
    }
    narrow = {
        "embedding": normal(7, 11, 3),
        "hidden.weight": normal(8, 3, 8),
        "hidden.bias": normal(9, 8),
        "output.weight": normal(10, 8, 3),
        "norm.gamma": normal(11, 3),
        "readout.weight": normal(12, 3, 5),
    }
    generic = Point("generic", {"parameters": wide, "narrow": narrow, "rate": 0.02})
    return [
        generic,
        generic.variant("the wide model is the narrow one", narrow=wide),
        generic.variant("another rate", rate=0.5),
    ]


EXERCISES = [Exercise(forward=width_rates, points=rate_points)]
