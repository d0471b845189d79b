"""Which arrays of a model are cut over ranks, and how: by the last two parts of their names."""

from collections.abc import Iterable

import numpy as np

from transformer_core.foundation.checks import check_names
from transformer_core.optim.clipping import checked_norm, own_norm
from transformer_core.ranks.communicator import Communicator
from transformer_core.ranks.flat import check_arrays

# The axis that is cut, and in how many parts each rank has a piece: of the queries, of the keys
# and of the values. Every rank has the whole of all other arrays.
CUTS = {
    "query_key_value.weight": (1, 3),
    "query_key_value.bias": (0, 3),
    "hidden.weight": (1, 1),
    "hidden.bias": (0, 1),
    "output.weight": (0, 1),
    "tokens.table": (0, 1),
    "readout.weight": (1, 1),
    "readout.bias": (0, 1),
}


def ending(name: str) -> str:
    """Return the last two parts of a dotted name."""
    return ".".join(name.split(".")[-2:])


def replicated(names: Iterable[str]) -> list[str]:
    """Return the names of the arrays that every rank has the whole of."""
    return [name for name in names if ending(name) not in CUTS]


def cut(
    arrays: dict[str, np.ndarray], communicator: Communicator
) -> dict[str, np.ndarray]:
    """Return this rank's pieces of whole arrays, or copies of those that are not cut.

    Parameters
    ----------
    arrays : dict of str to ndarray
        The parameters of a model, their gradients, or what an optimiser remembers of them: the
        names may have more in front.
    communicator : Communicator

    Returns
    -------
    dict of str to ndarray
        Arrays of their own, with the same names.
    """
    check_arrays("arrays", arrays)
    pieces = {name: arrays[name].copy() for name in replicated(arrays)}
    for name in arrays.keys() - pieces.keys():
        axis, parts = CUTS[ending(name)]
        own = []
        for part in sections(name, arrays[name], axis, parts):
            edges = [piece.stop for piece in communicator.bounds(part.shape[axis])]
            own.append(np.split(part, edges[:-1], axis)[communicator.rank])
        pieces[name] = np.concatenate(own, axis)
    return {name: pieces[name] for name in arrays}


def gather(
    arrays: dict[str, np.ndarray], communicator: Communicator
) -> dict[str, np.ndarray]:
    """Return the whole arrays of which every rank has pieces: the inverse of :func:`cut`.

    A checkpoint holds these, under the names that one process alone would give them. Every rank
    has to call it.
    """
    check_arrays("arrays", arrays)
    whole = {}
    for name, array in arrays.items():
        axis, parts = CUTS.get(ending(name), (0, 0))
        if parts:
            own = sections(name, array, axis, parts)
            array = np.concatenate(
                [communicator.all_gather(part, axis) for part in own], axis
            )
        whole[name] = array
    return whole


def sections(name, array, axis, parts):
    """Split an array along an axis into equal parts, each of which is cut by itself."""
    if array.ndim <= axis or array.shape[axis] % parts:
        raise ValueError(
            f"{name}: expected {parts} equal parts along axis {axis}, "
            f"got shape {array.shape}"
        )
    return np.split(array, parts, axis)


def norm_of_pieces(grads: dict[str, np.ndarray], communicator: Communicator) -> float:
    r"""Return the norm of all gradients together, of which every rank has pieces.

    .. math:: \|g\|^2 = \sum_r \sum_{\text{cut}} \|g_r\|^2 + \sum_{\text{whole}} \|g\|^2

    What every rank has the whole of counts once (eq:global-norm-sharded).

    Raises
    ------
    ValueError
        If ``grads`` is not a dict of arrays of real numbers; or if the norm is not finite, then
        on every rank.
    """
    check_names("grads", grads)
    whole = {name: grads[name] for name in replicated(grads)}
    own = {name: grads[name] for name in grads.keys() - whole.keys()}
    of_own, of_whole = own_norm(own), own_norm(whole)
    of_own += 0 * of_whole  # NaN, which the others get to know, if that is not finite
    norms = communicator.all_reduce(np.array([of_own]), np.hypot)
    return checked_norm(float(np.hypot(norms[0], of_whole)), grads)
