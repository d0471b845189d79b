"""Large arrays, worked on in blocks that stay in the processor's cache."""

BLOCK = 2**18  # entries: 1 MiB of float32


def blocks(*groups):
    """Cut arrays into blocks of rows: the arguments of a ``map`` that works on them.

    Parameters
    ----------
    *groups : dict of str to ndarray
        All with the names and the shapes of the first.

    Returns
    -------
    names : list of str
        The name of the array that each block is of.
    *blocks : list of ndarray
        For each group its blocks: views, of the same rows in all groups.
    """
    cuts = []
    for name, array in groups[0].items():
        if array.size <= BLOCK:
            cuts.append((name, ...))
            continue
        rows = max(1, BLOCK * len(array) // array.size)
        cuts += [(name, slice(i, i + rows)) for i in range(0, len(array), rows)]
    names = [name for name, _ in cuts]
    return names, *([group[name][rows] for name, rows in cuts] for group in groups)
