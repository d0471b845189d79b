"""Rows and matrices of fractions, with the operators of NumPy's arrays and no rounding."""

import operator
import re
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any, TypeAlias

NUMBER = re.compile(r"-?([0-9]+(/[0-9]+)?|[0-9]*\.[0-9]+)")


@dataclass(frozen=True)
class Array:
    """A row of fractions, or a matrix as a row of rows.

    Between an array and a number, or between a matrix and a row, an operator works on each entry
    or each row. ``sum`` adds the entries of a row and the rows of a matrix.
    """

    entries: tuple

    def __init__(self, entries):
        entries = tuple(e if isinstance(e, Array) else exact(e) for e in entries)
        object.__setattr__(self, "entries", entries)

    def __len__(self):
        return len(self.entries)

    def __iter__(self):
        return iter(self.entries)

    def __getitem__(self, place):
        found = self.entries[place]
        return Array(found) if isinstance(place, slice) else found

    @property
    def is_matrix(self):
        return isinstance(self.entries[0], Array)

    @property
    def T(self):
        return Array(map(Array, zip(*self, strict=True)))

    @property
    def flat(self):
        """All numbers, in a tuple."""
        return sum((row.entries for row in self), ()) if self.is_matrix else self.entries

    def __matmul__(self, other):
        if self.is_matrix:
            return Array(row @ other for row in self)
        if other.is_matrix:
            return Array(self @ column for column in other.T)
        return sum(self * other)

    def combine(self, operation, other):
        if isinstance(other, Array) and other.is_matrix == self.is_matrix:
            return Array(operation(a, b) for a, b in zip(self, other, strict=True))
        return Array(operation(a, other) for a in self)

    def __add__(self, other):
        return self.combine(operator.add, other)

    def __radd__(self, other):
        return self + other

    def __sub__(self, other):
        return self.combine(operator.sub, other)

    def __rsub__(self, other):
        return -self + other

    def __neg__(self):
        return self * -1

    def __mul__(self, other):
        return self.combine(operator.mul, other)

    def __rmul__(self, other):
        return self * other

    def __truediv__(self, other):
        return self.combine(operator.truediv, other)


Value: TypeAlias = Fraction | Array


def exact(value: Any) -> Value:
    """A number, or lists of numbers in each other, as fractions."""
    if isinstance(value, list | tuple):
        return Array(map(exact, value))
    return value if isinstance(value, Array) else Fraction(value)


def numbers(value: Value) -> tuple[Fraction, ...]:
    """All numbers of a value."""
    return value.flat if isinstance(value, Array) else (value,)


def shape(value: Value) -> tuple[int, ...]:
    """As of a NumPy array: () for a number."""
    if not isinstance(value, Array):
        return ()
    return (len(value), *shape(value[0]))


def mean(row: Array) -> Fraction:
    """The mean of a row."""
    return Fraction(sum(row)) / len(row)


def outer(column: Array, row: Array) -> Array:
    """The outer product of two rows."""
    return Array(a * row for a in column)


def drawn(rng: Random, *sizes: int, low: int = -3, high: int = 3) -> Array:
    """Draw whole numbers from low to high, in a row or a matrix."""
    first, *rest = sizes
    return Array(
        drawn(rng, *rest, low=low, high=high) if rest else rng.randint(low, high)
        for _ in range(first)
    )


def show(value: Value) -> str:
    """Write a value as :func:`parse` reads it: ``-2/7``, ``1, 2``, ``1, 2; 3, 4``."""
    if not isinstance(value, Array):
        return str(value)
    return ("; " if value.is_matrix else ", ").join(map(show, value))


def parse(text: str, like: Value) -> Value:
    """Read a value of the shape of another.

    Parameters
    ----------
    text : str
        Numbers such as ``3``, ``-2/7`` and ``0.5``, between commas or spaces; rows of a matrix
        end with a semicolon. Round and square brackets are read over.
    like : Fraction or Array
        It has the shape that is expected.

    Returns
    -------
    Fraction or Array

    Raises
    ------
    ValueError
        If the text has another form.
    """
    plain = re.sub(r"[()\[\]]", " ", text.replace("−", "-"))
    plain = re.sub(r"\s*/\s*", "/", plain)
    rows = [re.split(r"\s*,\s*|\s+", row.strip()) for row in plain.split(";")]
    sizes = shape(like)
    if (
        len(rows) == (sizes[0] if len(sizes) == 2 else 1)
        and all(len(row) == (sizes[-1] if sizes else 1) for row in rows)
        and all(is_number(word) for row in rows for word in row)
    ):
        found = Array(Array(row) for row in rows)
        return found if len(sizes) == 2 else found[0] if sizes else found[0][0]
    raise ValueError(f"answer: expected {form(like)}, got {text.strip()!r}")


def is_number(word):
    return bool(NUMBER.fullmatch(word)) and not re.search(r"/0+$", word)


def form(value: Value) -> str:
    """Say how an answer of this shape is written."""
    sizes = shape(value)
    if not sizes:
        return "a number such as 3, -2/7 or 0.5"
    count = iter(range(1, 1 + len(numbers(value))))
    rows = [[next(count) for _ in range(sizes[-1])] for _ in range((1, *sizes)[-2])]
    example = show(exact(rows if len(sizes) == 2 else rows[0]))
    if len(sizes) == 2:
        return f"{sizes[0]} rows of {sizes[1]} numbers, as in {example}"
    return f"{sizes[0]} numbers, as in {example}"
