"""What is to be explained, and how what is found is said."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from transformer_practice.engine.exercise import Exercise
from transformer_practice.engine.points import Point
from transformer_practice.engine.runs import Run, close, points_of

FEW = 5  # names in a sentence; of more wrong outputs, one mistake is the cause of all


class Explanation(NamedTuple):
    text: str
    mistakes: tuple[str, ...] = ()


class Stage(NamedTuple):
    """One pass of an answer, beside the right one, at each point of its exercise."""

    exercise: Exercise
    name: str  # "forward" or "backward"
    own: list[Run]
    right: list[Run]
    wrong: list[str]  # the outputs that are wrong at some point
    again: Callable[[Point, str, Any], Run]  # runs the reader's pass with one array replaced
    values: Callable[[str], dict[str, Any]]  # the reader's local variables at a point
    repairs: Callable[..., dict[str, list[str]]]  # changes with which the reader's pass is right
    after: bool = False  # whether it follows a forward pass of the reader's that is right

    @property
    def points(self) -> list[Point]:
        return points_of(self.exercise)


class Case(NamedTuple):
    """An output at a point: the reader's, the right one, and all right outputs there.

    ``floor`` is a size below which it counts as zero.
    """

    point: Point
    own: np.ndarray
    right: np.ndarray
    others: dict[str, np.ndarray]
    floor: float

    @property
    def is_wrong(self):
        return not close(self.own, self.right, self.floor)


def numbers(array):
    """Return an array as it is, one of truth values as zeros and ones."""
    return array.astype(float) if array.dtype == bool else array


def listed(names, most=None):
    """Join names as in a sentence; by semicolons where there are commas in them.

    Of more than one above ``most``, the first are named and the others counted.
    """
    names = list(names)
    if most and len(names) > most + 1:
        names = [*names[:most], f"{len(names) - most} others"]
    if any("," in name for name in names):
        return "; ".join(names)
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
