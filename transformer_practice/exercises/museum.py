"""Chapter 320: comparing a gradient with its witness."""

import numpy as np

from transformer_practice.engine.exercise import Exercise
from transformer_practice.engine.points import Point, normal


def length_and_cosine(gradient: np.ndarray, witness: np.ndarray) -> tuple[float, float]:
    """Return the length of the gradient, times that of the witness, and the cosine between them."""
    own, right = np.linalg.norm(gradient), np.linalg.norm(witness)
    return float(own / right), float((gradient * witness).sum() / (own * right))


def points():
    def draw(name, *shape):
        return Point(
            name,
            {"gradient": normal(1, *shape), "witness": normal(2, *shape)},
            sizes={"d_k": shape[-1], "B": shape[0]},
        )

    generic = draw("generic", 3, 4, 5)
    witness = generic.arguments["witness"]
    return [
        generic,
        generic.variant("three times too long", gradient=3 * witness),
        generic.variant("the opposite", gradient=-witness),
        generic.variant("a very short witness", witness=1e-9 * witness),
        draw("generic, other sizes", 7, 2),
    ]


EXERCISES = [Exercise(forward=length_and_cosine, returns=("length", "cosine"), points=points)]
