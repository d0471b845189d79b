"""What a checkpoint holds: for each of its arrays, the parameter here and its equation."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np


class Row(NamedTuple):
    """One array of a file, and where it stands in a model of the course."""

    theirs: str  # its name in the file
    ours: str  # the name of the parameter here
    shape: tuple[int, ...]  # in the file
    equation: str
    transposed: bool = False  # there (out, in), here (in, out)
    part: int | None = None  # of an array that holds several side by side


def embedding(theirs: str, ours: str, rows: int, width: int, equation: str) -> Row:
    """Return the row of a table of embeddings."""
    return Row(f"{theirs}.weight", f"{ours}.table", (rows, width), equation)


def norm(theirs: str, ours: str, width: int, beta: bool = True) -> list[Row]:
    """Return the rows of a norm: LayerNorm, or RMSNorm without beta."""
    equation = "eq:layer-norm" if beta else "eq:rms-norm"
    rows = [Row(f"{theirs}.weight", f"{ours}.gamma", (width,), equation)]
    if beta:
        rows.append(Row(f"{theirs}.bias", f"{ours}.beta", (width,), equation))
    return rows


def dense(
    theirs: str,
    ours: str,
    shape: tuple[int, int],
    bias: bool = True,
    transposed: bool = True,
    part: int | None = None,
) -> list[Row]:
    """Return the rows of a linear layer, of a shape (in, out)."""
    stored, equation = shape[::-1] if transposed else shape, "eq:linear"
    weight = f"{theirs}.weight", f"{ours}.weight", stored, equation
    rows = [Row(*weight, transposed, part)]
    if bias:
        its, own = f"{theirs}.bias", f"{ours}.bias"
        rows.append(Row(its, own, shape[1:], equation, part=part))
    return rows


def in_their_layout(
    rows: Iterable[Row], ours: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return views of parameters, or of their gradients, as a file has them, by its names."""
    ends: dict[str, int] = {}
    views = {}
    for row in rows:
        array = ours[row.ours]
        if row.part is not None:
            width = row.shape[0] if row.transposed else row.shape[-1]
            begin = ends.get(row.ours, 0)
            ends[row.ours] = begin + width
            array = array[..., begin : begin + width]
        views[row.theirs] = array.T if row.transposed else array
    return views
