"""Numbers, rows and matrices of fractions: NumPy's arrays of objects, which round nothing."""

import re
from fractions import Fraction
from math import prod
from random import Random
from typing import Any, TypeAlias

import numpy as np

NUMBER = re.compile(r"-?([0-9]+(/[0-9]+)?|[0-9]*\.[0-9]+)")

Value: TypeAlias = Any  # a Fraction, or an array of them
fractions = np.frompyfunc(Fraction, 1, 1)


def exact(value: Any) -> Value:
    """A number, or lists of numbers in each other, as fractions."""
    return fractions(np.array(value, object))


def numbers(value: Value) -> tuple[Fraction, ...]:
    """All numbers of a value."""
    return tuple(np.ravel(np.asarray(value, object)))


def is_equal(one: Value, other: Value) -> bool:
    """Whether two values have the same shape and the same numbers."""
    return np.shape(one) == np.shape(other) and numbers(one) == numbers(other)


def mean(row: np.ndarray) -> Fraction:
    """The mean of a row."""
    return sum(row) / len(row)


def drawn(rng: Random, *sizes: int, low: int = -3, high: int = 3) -> np.ndarray:
    """Draw whole numbers from low to high, in a row or a matrix."""
    return exact([rng.randint(low, high) for _ in range(prod(sizes))]).reshape(sizes)


def show(value: Value) -> str:
    """Write a value as :func:`parse` reads it: ``-2/7``, ``1, 2``, ``1, 2; 3, 4``."""
    if np.ndim(value) == 0:
        return str(value)
    return ("; " if np.ndim(value) == 2 else ", ").join(map(show, value))


def parse(text: str, like: Value) -> Value:
    """Read a value of the shape of another.

    Parameters
    ----------
    text : str
        Numbers such as ``3``, ``-2/7`` and ``0.5``, between commas or spaces; rows of a matrix
        end with a semicolon. Round and square brackets are read over.
    like : Fraction or ndarray
        It has the shape that is expected.

    Returns
    -------
    Fraction or ndarray

    Raises
    ------
    ValueError
        If the text has another form.
    """
    plain = re.sub(r"[()\[\]]", " ", text.replace("−", "-"))
    plain = re.sub(r"\s*/\s*", "/", plain)
    rows = [re.split(r"\s*,\s*|\s+", row.strip()) for row in plain.split(";")]
    sizes = np.shape(like)
    if (
        len(rows) == (sizes[0] if len(sizes) == 2 else 1)
        and all(len(row) == (sizes[-1] if sizes else 1) for row in rows)
        and all(is_number(word) for row in rows for word in row)
    ):
        return exact(rows).reshape(sizes) if sizes else Fraction(rows[0][0])
    raise ValueError(f"answer: expected {form(like)}, got {text.strip()!r}")


def is_number(word):
    return bool(NUMBER.fullmatch(word)) and not re.search(r"/0+$", word)


def form(value: Value) -> str:
    """Say how an answer of this shape is written."""
    sizes = np.shape(value)
    if not sizes:
        return "a number such as 3, -2/7 or 0.5"
    example = np.arange(1, 1 + prod(sizes)).reshape(sizes)
    if len(sizes) == 2:
        return f"{sizes[0]} rows of {sizes[1]} numbers, as in {show(example)}"
    return f"{sizes[0]} numbers, as in {show(example)}"
