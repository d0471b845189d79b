"""Chapter 310: training an encoder."""

import numpy as np

from transformer_core import ops
from transformer_core.practice.exercise import (
    Function,
    OpExercise,
    Point,
    Theorem,
    normal,
    variants,
)
from transformer_core.practice.exercises.structure import difference


def squares_points():
    def draw(name, batch, length, width):
        return Point(
            name,
            {
                "prediction": normal(1, batch, length, width),
                "target": normal(2, batch, length, width),
            },
            -1.7,
            {"B": batch, "T": length, "D": width, "N": batch * length * width},
        )

    generic = draw("generic", 2, 3, 5)
    prediction, target = generic.arguments.values()
    return [
        *variants(
            generic,
            {
                "cotangent 1": {"cotangent": 1.0},
                "one entry": {
                    "prediction": prediction[0, 0, :1],
                    "target": target[0, 0, :1],
                },
                "a target of zeros": {"target": np.zeros(target.shape)},
                "a perfect prediction": {"prediction": target},
                "not in C order": {"target": np.asfortranarray(target)},
            },
        ),
        draw("generic, other sizes", 4, 2, 3),
    ]


def twice_the_loss(point, outputs):
    prediction, target = point.arguments.values()
    loss, _ = ops.mean_squared_error(prediction, target)
    return difference(
        (outputs["dprediction"] * (prediction - target)).sum(),
        2 * point.cotangent * loss,
    )


EXERCISES = [
    OpExercise(
        name="mean_squared_error",
        chapter="310_train_encoder",
        forward=ops.mean_squared_error,
        backward=ops.mean_squared_error_backward,
        functions=(
            Function(
                "prediction, target",
                "prediction and target (...) -> loss: a number, cache",
                "eq:mean-squared-error",
            ),
            Function(
                "dloss, cache",
                "dloss: a number -> dprediction (...)",
                "eq:mean-squared-error-backward",
            ),
        ),
        inputs=("prediction",),
        points=squares_points,
        hints=(
            "How many numbers does the mean run over? Every axis counts.",
            "One entry of the prediction stands in one term of the sum. Differentiate that term.",
            "The mean divides once, the square brings a factor, and the cotangent multiplies.",
        ),
        theorems=(
            Theorem(
                "<dprediction, prediction - target> = 2 dloss loss", twice_the_loss
            ),
        ),
    ),
]
