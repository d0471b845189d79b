"""What every public function asks of its arguments, and the words it asks in."""

import numpy as np


def check_array(name: str, array: np.ndarray) -> None:
    """Raise ``ValueError`` unless ``array`` is a NumPy array with at least one element."""
    if not isinstance(array, np.ndarray):
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
    check_array(name, array)
    free = shape[:1] == (...,)
    sizes = shape[1:] if free else shape
    actual = array.shape[max(array.ndim - len(sizes), 0) :] if free else array.shape
    if actual != sizes and not fits(actual, sizes):
        expected = ", ".join("..." if size is ... else str(size) for size in shape)
        raise ValueError(f"{name}: expected shape ({expected}), got {array.shape}")


def check_floats(name: str, array: np.ndarray, *shape: object) -> None:
    """Raise ``ValueError`` unless ``array`` has the shape and holds real or complex floats.

    Whole numbers would wrap round or be cut off in what is computed of them. Arrays of objects
    pass: exact numbers, say.

    Parameters
    ----------
    name, array, *shape
        As for :func:`check_shape`.
    """
    check_shape(name, array, *shape)
    if array.dtype.kind not in "fcO":
        raise ValueError(f"{name}: expected floating-point numbers, got {array.dtype}")


def fits(actual, sizes):
    """Tell whether a shape has the sizes, of which letters stand for any."""
    return len(actual) == len(sizes) and all(
        size == got or isinstance(size, str)
        for size, got in zip(sizes, actual, strict=True)
    )


def check_positive_int(name: str, value: int) -> None:
    """Raise ``ValueError`` unless ``value`` is a whole number of at least 1."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
        raise ValueError(
            f"{name}: expected a whole number of at least 1, got {value!r}"
        )


def check_rate(name: str, rate: float) -> None:
    """Raise ``ValueError`` unless ``rate`` is a probability below 1."""
    if not 0 <= rate < 1:
        raise ValueError(f"{name}: expected a number in [0, 1), got {rate}")


def check_positive(name: str, value: float) -> None:
    """Raise ``ValueError`` unless a setting is positive and finite."""
    if not 0 < value < float("inf"):
        raise ValueError(f"{name}: expected a positive number, got {value}")


def check_ids(name: str, ids: np.ndarray, vocabulary: int) -> None:
    """Raise ``ValueError`` unless ``ids`` is a non-empty array of whole numbers below V."""
    check_array(name, ids)
    if not np.issubdtype(ids.dtype, np.integer):
        raise ValueError(f"{name}: expected whole numbers, got {ids.dtype}")
    outside = ids[(ids < 0) | (ids >= vocabulary)]
    if outside.size:
        raise ValueError(
            f"{name}: expected ids from 0 to {vocabulary - 1}, got {outside[0]}"
        )
