"""Large arrays, worked on in chunks that stay in the processor's cache."""

import numpy as np

CHUNK = 2**18  # entries: 1 MiB of float32


def chunks(*groups: dict[str, np.ndarray]) -> tuple[list, ...]:
    """Cut arrays into chunks of rows: the arguments of a ``map`` that works on them.

    Parameters
    ----------
    *groups : dict of str to ndarray
        All with the names and the shapes of the first.

    Returns
    -------
    names : list of str
        The name of the array that each chunk is of.
    *chunks : list of ndarray
        For each group its chunks: views, of the same rows in all groups.
    """
    cuts: list[tuple] = []
    for name, array in groups[0].items():
        if array.size <= CHUNK:
            cuts.append((name, ...))
            continue
        rows = max(1, CHUNK * len(array) // array.size)
        cuts += [(name, slice(i, i + rows)) for i in range(0, len(array), rows)]
    names = [name for name, _ in cuts]
    return names, *([group[name][rows] for name, rows in cuts] for group in groups)
