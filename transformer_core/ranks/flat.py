"""Many arrays as one flat buffer: one large message instead of many small ones."""

import numpy as np

from transformer_core.foundation.checks import check_array, check_names, check_shape


def flatten(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Return all numbers of arrays of one dtype in one new array, in the order of the names."""
    check_one_dtype("arrays", arrays)
    return np.concatenate([array.reshape(-1) for array in arrays.values()])


def unflatten(buffer: np.ndarray, like: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return views of a flat buffer with the names and the shapes of ``like``."""
    check_arrays("like", like)
    total = sum(array.size for array in like.values())
    check_shape("buffer", buffer, total)
    views, start = {}, 0
    for name, array in like.items():
        views[name] = buffer[start : start + array.size].reshape(array.shape)
        start += array.size
    return views


def check_arrays(name: str, arrays: dict[str, np.ndarray]) -> None:
    """Raise ``ValueError`` unless ``arrays`` is a dict of arrays that are not empty."""
    check_names(name, arrays)
    for key, array in arrays.items():
        check_array(f"{name}: {key}", array)


def check_one_dtype(name: str, arrays: dict[str, np.ndarray]) -> None:
    """Raise ``ValueError`` unless it is a dict of arrays, one at least, of one dtype."""
    check_arrays(name, arrays)
    dtypes = {array.dtype for array in arrays.values()}
    if len(dtypes) != 1:
        found = ", ".join(sorted(map(str, dtypes))) or "none"
        raise ValueError(f"{name}: expected one dtype, got {found}")
