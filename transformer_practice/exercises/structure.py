"""Measures of how far a theorem is from holding, for the exercises of several chapters."""

from collections.abc import Callable

import numpy as np

from transformer_core.gradient_check import gradient_error


def row_sums(output: str) -> Callable:
    """Return a deviation: the largest sum of a row of an output, against its largest entry.

    Where the gradient itself is rounding, against the largest entry of the cotangent.
    """

    def deviation(point, outputs):
        array = outputs[output]
        largest = max(np.abs(array).max(), np.abs(point.cotangent).max())
        return np.abs(array.sum(axis=-1)).max() / largest

    return deviation


def difference(left: float, right: float) -> float:
    """Return how far two sides of an equation are apart, relative to the larger one."""
    return gradient_error(np.asarray(left), np.asarray(right)).norm
