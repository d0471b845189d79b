"""Dotted names, under which a model's arrays are known."""

import numpy as np

from transformer_core.foundation.checks import check_array, check_names, check_shape


def join(parts: dict[str, dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Flatten ``{"attention": {"weight": w}}`` to ``{"attention.weight": w}``."""
    return {
        f"{part}.{name}": array
        for part, arrays in parts.items()
        for name, array in arrays.items()
    }


def stand_in(array: np.ndarray) -> np.ndarray:
    """Return an array of the same shape and dtype, without memory."""
    return np.broadcast_to(np.zeros((), array.dtype), array.shape)


def sizes(arrays: dict[str, np.ndarray], depth: int) -> dict[str, int]:
    """Count the numbers in arrays by the first ``depth`` parts of their dotted names."""
    counts: dict[str, int] = {}
    for name, array in arrays.items():
        part = ".".join(name.split(".")[:depth])
        counts[part] = counts.get(part, 0) + array.size
    return counts


def check_fit(
    what: str, arrays: dict[str, np.ndarray], expected: dict[str, np.ndarray]
) -> None:
    """Raise ``ValueError`` unless arrays have the names and the shapes of the expected ones."""
    check_names(what, arrays)
    missing, unknown = expected.keys() - arrays.keys(), arrays.keys() - expected.keys()
    if missing or unknown:
        raise ValueError(
            f"{what}: expected {len(expected)} names, missing {summary(missing)}; "
            f"unknown {summary(unknown)}"
        )
    for name, array in expected.items():
        check_array(f"{what}: {name}", arrays[name])
        check_shape(f"{what}: {name}", arrays[name], *array.shape)


def summary(names):
    """Return names for an error message: in order, at most three, then how many more."""
    names = sorted(names)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more if names else "none"
