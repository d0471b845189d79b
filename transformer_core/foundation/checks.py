"""What every public function asks of its arguments, and the words it asks in."""

from collections.abc import Iterable
from decimal import Decimal
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
from numpy import ndarray
from numpy.typing import DTypeLike

LARGEST_SIZE = 2**31 - 1  # what is larger was meant for something else


def check_array(name: str, array: np.ndarray) -> None:
    """Raise ``ValueError`` unless ``array`` is a NumPy array with at least one element.

    Masked arrays and matrices are none: their means skip entries, their * multiplies matrices.
    """
    if type(array) is not ndarray and (
        not isinstance(array, np.ndarray)
        or isinstance(array, (np.ma.MaskedArray, np.matrix))
    ):
        raise ValueError(f"{name}: expected a NumPy array, got {type(array).__name__}")
    if array.size == 0:
        raise ValueError(
            f"{name}: expected at least one element, got shape {array.shape}"
        )


def check_shape(name: str, array: np.ndarray, *shape: object) -> None:
    """Raise ``ValueError`` unless ``array`` is a non-empty NumPy array of the given shape.

    Parameters
    ----------
    name : str
        What the message calls the array.
    array : ndarray
    *shape : int, str or Ellipsis
        One entry an axis: a size, or a letter for an axis of any size. A leading ``...`` stands
        for any number of axes: ``check_shape("x", x, ..., "T", 64)``.
    """
    if type(array) is not ndarray or not array.size:
        check_array(name, array)
    if not has_sizes(array.shape, shape):
        expected = ", ".join("..." if size is ... else str(size) for size in shape)
        raise ValueError(f"{name}: expected shape ({expected}), got {array.shape}")


def has_sizes(actual, sizes):
    """Tell whether a shape has the sizes of :func:`check_shape`, seen from its end."""
    axis = len(actual)
    for size in reversed(sizes):
        if size is ...:
            return True
        axis -= 1
        if axis < 0 or size != actual[axis] and not isinstance(size, str):
            return False
    return axis == 0


def broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Tell whether an array of one shape broadcasts to another, and to no larger one."""
    pairs = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(own in (1, size) for own, size in pairs)


def check_floats(name: str, array: np.ndarray, *shape: object) -> None:
    """Raise ``ValueError`` unless ``array`` has the shape and holds real or complex floats.

    Whole numbers would wrap round or be cut off in what is computed of them. Arrays of objects
    pass if these are exact numbers, or symbols.
    """
    check_shape(name, array, *shape)
    if array.dtype.kind not in "fc" and not holds_exact_numbers(array):
        raise ValueError(f"{name}: expected floating-point numbers, got {array.dtype}")


def check_function(name: str, array: np.ndarray, function: str) -> None:
    """Raise ``ValueError`` if ``array`` holds exact numbers that a function cannot be taken of.

    NumPy looks for it among the methods of an object, and a ``Fraction`` has no ``exp``.
    """
    if array.dtype.kind == "O" and not all(hasattr(a, function) for a in array.flat):
        raise ValueError(
            f"{name}: expected numbers with {function}, such as floats, got {array.dtype}"
        )


def check_reals(name: str, array: np.ndarray, *shape: object) -> None:
    """Raise ``ValueError`` unless ``array`` has the shape and holds real numbers of any kind."""
    check_shape(name, array, *shape)
    if array.dtype.kind not in "biuf" and not holds_exact_numbers(array):
        raise ValueError(f"{name}: expected real numbers, got {array.dtype}")


def check_booleans(name: str, array: np.ndarray, *shape: object) -> None:
    """Raise ``ValueError`` unless ``array`` has the shape and holds booleans."""
    check_shape(name, array, *shape)
    if array.dtype != bool:
        raise ValueError(f"{name}: expected booleans, got {array.dtype}")


def holds_exact_numbers(array):
    """Tell whether an array holds objects, and these are exact numbers or symbols.

    Binary floats are not: NumPy takes no exponentials of them as objects.
    """
    return array.dtype.kind == "O" and all(
        is_number(entry) and not isinstance(entry, (float, complex))
        for entry in array.flat
    )


def is_number(value):
    """Tell a single number, or a symbol for one, from all else.

    A ``Decimal`` is none here: it cannot be multiplied by a float.
    """
    if isinstance(value, (np.generic, np.ndarray)):
        return value.ndim == 0 and (
            value.dtype.kind in "biufc" or holds_exact_numbers(value)
        )
    symbol = hasattr(value, "__pow__") and hasattr(value, "__truediv__")
    return symbol and np.ndim(value) == 0 and not isinstance(value, (type, Decimal))


def is_real(value: Any) -> bool:
    """Tell a single real number, or a symbol for one, from all else."""
    return isinstance(value, (float, int)) or is_number(value) and np.isrealobj(value)


def check_kind(name: str, value: Any, kind: type) -> Any:
    """Return ``value``; raise ``ValueError`` unless it is one of a class, such as a cache."""
    if not isinstance(value, kind):
        raise ValueError(
            f"{name}: expected one of the class {kind.__name__}, got {type(value).__name__}"
        )
    return value


def check_generator(name: str, rng: np.random.Generator) -> None:
    """Raise ``ValueError`` unless ``rng`` draws as a NumPy generator does: a seed does not."""
    if not isinstance(rng, np.random.Generator) and (
        not hasattr(rng, "random")
        or isinstance(rng, (np.random.RandomState, Random, ModuleType))
    ):
        raise ValueError(
            f"{name}: expected a generator such as numpy.random.default_rng(0), "
            f"got {rng!r:.60}"
        )


def check_dtype(name: str, dtype: DTypeLike) -> None:
    """Raise ``ValueError`` unless ``dtype`` is one of floating-point numbers, or of objects."""
    try:
        floats = np.dtype(dtype).kind in "fcO"
    except TypeError:
        floats = False
    if not floats:
        raise ValueError(f"{name}: expected one of floating-point numbers, got {dtype}")


def as_list(name: str, values: Iterable) -> list:
    """Return values in a list; raise ``ValueError`` if there is nothing to go through."""
    try:
        return list(values)
    except TypeError:
        raise ValueError(
            f"{name}: expected a list, got {type(values).__name__}"
        ) from None


def check_names(name: str, arrays: dict) -> None:
    """Raise ``ValueError`` unless ``arrays`` is a dict."""
    if not isinstance(arrays, dict):
        raise ValueError(
            f"{name}: expected a dict of arrays, got {type(arrays).__name__}"
        )


def check_whole(name: str, value: int, least: int = 0) -> None:
    """Raise ``ValueError`` unless ``value`` is a whole number of at least ``least``."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(
            f"{name}: expected a whole number of at least {least}, got {value!r}"
        )


def check_positive_int(name: str, value: int) -> None:
    """Raise ``ValueError`` unless ``value`` is a whole number from 1 to 2^31 - 1."""
    check_whole(name, value, least=1)
    if value > LARGEST_SIZE:
        raise ValueError(f"{name}: expected at most {LARGEST_SIZE}, got {value}")


def check_rate(name: str, rate: float) -> None:
    """Raise ``ValueError`` unless ``rate`` is a probability below 1."""
    if not is_real(rate) or not 0 <= rate < 1:
        raise ValueError(f"{name}: expected a number in [0, 1), got {rate}")


def check_positive(name: str, value: float) -> None:
    """Raise ``ValueError`` unless a setting is positive and finite."""
    if not is_real(value) or not 0 < value < float("inf"):
        raise ValueError(f"{name}: expected a positive number, got {value}")


def check_not_negative(name: str, value: float) -> None:
    """Raise ``ValueError`` unless a setting is at least 0 and finite."""
    if not is_real(value) or not 0 <= value < float("inf"):
        raise ValueError(f"{name}: expected a number of at least 0, got {value}")


def check_real(name: str, value: float) -> None:
    """Raise ``ValueError`` unless ``value`` is one real number; it may be infinite, or NaN."""
    if not is_real(value):
        raise ValueError(f"{name}: expected one real number, got {value!r}")


def check_scalar(name: str, value: Any) -> None:
    """Raise ``ValueError`` unless ``value`` is one number, or one symbol."""
    if not is_number(value):
        raise ValueError(f"{name}: expected one number, got {value!r}")


def record(name: str, kind: type, settings: dict) -> Any:
    """Make a dataclass of its settings; raise ``ValueError`` unless they have its names."""
    try:
        return kind(**settings)
    except TypeError as error:
        raise ValueError(
            f"{name}: expected the settings of {kind.__name__}, got {settings!r}"
        ) from error


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Raise ``ValueError`` unless ``value`` is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}: expected one of {', '.join(choices)}, got {value!r}")


def check_ids(name: str, ids: np.ndarray, vocabulary: int) -> None:
    """Raise ``ValueError`` unless ``ids`` is a non-empty array of whole numbers below V."""
    check_array(name, ids)
    if not np.issubdtype(ids.dtype, np.integer):
        raise ValueError(f"{name}: expected whole numbers, got {ids.dtype}")
    if ids.min() < 0 or ids.max() >= vocabulary:
        outside = ids[(ids < 0) | (ids >= vocabulary)]
        raise ValueError(
            f"{name}: expected ids from 0 to {vocabulary - 1}, got {outside[0]}"
        )
