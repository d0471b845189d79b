"""What a reader may write and have examined: one file a chapter."""

from collections.abc import Iterator
from difflib import get_close_matches
from importlib import import_module

from transformer_practice.engine.exercise import Exercise

# In the order of the book. Each file has a list EXERCISES, in the order in which to write them.
CHAPTERS = (
    "transformer",
    "gradient_check",
    "linear",
    "softmax",
    "cross_entropy",
    "layer_norm",
    "feed_forward",
    "when_checks_lie",
    "attention",
    "multi_head_attention",
    "embedding",
    "optimizers",
    "schedules",
    "steepest_descent",
    "residual",
    "signal_propagation",
    "dropout",
    "train_encoder",
    "museum",
    "train_encoder_decoder",
    "bert",
    "train_bert",
    "plateau",
    "cost",
    "speed",
    "many_machines",
    "one_layer",
    "internet_scale",
    "taylor",
    "jacobians",
    "eigenvalues",
    "expectation",
)


def every_exercise() -> Iterator[Exercise]:
    """Yield the exercises in the order of the book."""
    for chapter in CHAPTERS:
        yield from import_module(f"{__name__}.{chapter}").EXERCISES


def find_exercise(name: str) -> Exercise:
    """Return the exercise of a name.

    Raises
    ------
    ValueError
        If there is none.
    """
    exercises = {exercise.name: exercise for exercise in every_exercise()}
    if name not in exercises:
        near = get_close_matches(name, exercises)
        asked = f": did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(
            f"name: expected one of the exercises, such as linear, got {name!r}{asked}"
        )
    return exercises[name]
