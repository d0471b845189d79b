"""Many arrays as one flat buffer: one large message instead of many small ones."""

import numpy as np

from transformer_core.foundation.checks import check_shape


def flatten(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Return all numbers of arrays of one dtype in one new array, in the order of the names.

    Raises
    ------
    ValueError
        If there is no array, or their dtypes differ.
    """
    dtypes = {array.dtype for array in arrays.values()}
    if len(dtypes) != 1:
        found = ", ".join(sorted(map(str, dtypes))) or "none"
        raise ValueError(f"arrays: expected one dtype, got {found}")
    return np.concatenate([array.reshape(-1) for array in arrays.values()])


def unflatten(buffer: np.ndarray, like: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return views of a flat buffer with the names and the shapes of ``like``.

    Raises
    ------
    ValueError
        If the buffer is not as long as all of them together.
    """
    total = sum(array.size for array in like.values())
    check_shape("buffer", buffer, total)
    views, start = {}, 0
    for name, array in like.items():
        views[name] = buffer[start : start + array.size].reshape(array.shape)
        start += array.size
    return views
