"""Which arrays of a model are cut over ranks, and how: as the layers that are cut say."""

from collections.abc import Container, Iterable
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_names
from transformer_core.layers.layer import Wrapper
from transformer_core.optim.clipping import checked_norm, own_norm
from transformer_core.ranks.communicator import Communicator, check_axis
from transformer_core.ranks.flat import check_arrays


class Cut(NamedTuple):
    """Along which axis an array is cut, and in which sections, each of which is cut by itself."""

    axis: int
    sections: tuple[int, ...] = ()  # their lengths on all ranks; none: there is one
    copies: tuple[
        int, ...
    ] = ()  # how many ranks in turn share a piece of each; none: 1


class CutLayer(Wrapper):
    """A layer of which each rank has its pieces; it says which arrays are cut.

    Parameters
    ----------
    layer : layer
        The whole one. Not modified.
    cuts : dict of str to Cut
        By the names of its arrays; every rank has the whole of the others.
    communicator : Communicator
    """

    def __init__(self, layer: Any, cuts: dict[str, Cut], communicator: Communicator):
        super().__init__(copy(layer))
        self.cuts = cuts
        self.set_parameters(cut(layer.parameters(), cuts, communicator))


def cuts_of(layer: Any) -> dict[str, Cut]:
    """Return how the arrays of a layer, or of a model, are cut; those that are not are left out."""
    cuts = dict(getattr(layer, "cuts", {}))
    for part, sublayer in layer.sublayers().items():
        cuts |= {f"{part}.{name}": how for name, how in cuts_of(sublayer).items()}
    return cuts


def cut_of(name: str, cuts: dict[str, Cut]) -> Cut | None:
    """Return how an array is cut, under its name or with more in front; None: it is not."""
    parts = name.split(".")
    names = (".".join(parts[n:]) for n in range(len(parts)))
    return next((cuts[name] for name in names if name in cuts), None)


def replicated(names: Iterable[str], cuts: Container[str]) -> list[str]:
    """Return the names of the arrays that every rank has the whole of."""
    return [name for name in names if name not in cuts]


def cut(
    arrays: dict[str, np.ndarray], cuts: dict[str, Cut], communicator: Communicator
) -> dict[str, np.ndarray]:
    """Return this rank's pieces of whole arrays, or copies of those that are not cut.

    Parameters
    ----------
    arrays : dict of str to ndarray
        The parameters of a model, their gradients, or what an optimiser remembers of them: the
        names may have more in front.
    cuts : dict of str to Cut
        By the names of parameters: :func:`cuts_of` the model.
    communicator : Communicator

    Returns
    -------
    dict of str to ndarray
        Arrays of their own, with the same names.
    """
    check_arrays("arrays", arrays)
    pieces = {}
    for name, array in arrays.items():
        pieces[name] = array.copy()
        if how := cut_of(name, cuts):
            check_axis(name, array, how.axis)
            check_sections(name, array, how, sum(how.sections))
            (indices,) = indices_of(array, how, communicator, [communicator.rank])
            pieces[name] = array.take(indices, how.axis)
    return pieces


def gather(
    arrays: dict[str, np.ndarray], cuts: dict[str, Cut], communicator: Communicator
) -> dict[str, np.ndarray]:
    """Return the whole arrays of which every rank has pieces: the inverse of :func:`cut`.

    A checkpoint holds these, under the names that one process alone would give them. Every rank
    has to call it.
    """
    check_arrays("arrays", arrays)
    whole = {}
    for name, array in arrays.items():
        if how := cut_of(name, cuts):
            array = communicator.all_gather(array, how.axis)
            ranks = range(communicator.size)
            indices = np.concatenate(indices_of(array, how, communicator, ranks))
            check_sections(name, array, how, len(indices))
            _, first = np.unique(indices, return_index=True)
            array = array.take(first, how.axis)
        whole[name] = array
    return whole


def check_sections(name, array, how, length):
    """Raise ``ValueError`` unless an array that has sections has their length."""
    if how.sections and array.shape[how.axis] != length:
        raise ValueError(
            f"{name}: expected sections of {how.sections} along axis {how.axis}, "
            f"got shape {array.shape}"
        )


def indices_of(array, how, communicator, ranks):
    """Return which entries along the axis that is cut each of some ranks has.

    Where it has no sections, it is as long as the array.
    """
    length = sum(how.sections) or array.shape[how.axis]
    edges = np.cumsum(how.sections, dtype=int)[:-1]
    sections = np.split(np.arange(length), edges)
    copies = how.copies or (1,) * len(sections)

    def of_rank(rank):
        for section, sharers in zip(sections, copies, strict=False):
            pieces = communicator.size // sharers
            bounds = [len(section) * (rank // sharers + i) // pieces for i in (0, 1)]
            yield section[slice(*bounds)]

    return [np.concatenate([*of_rank(rank)]) for rank in ranks]


def of_first(array, how, communicator):
    """Return the entries of a rank's piece that no rank before it has."""
    if not how.copies:
        return array
    ranks = range(communicator.rank + 1)
    *before, own = indices_of(array, how, communicator, ranks)
    new = ~np.isin(own, np.concatenate([np.arange(0), *before]))
    return array.compress(new, how.axis)


def norm_of_pieces(
    grads: dict[str, np.ndarray], cuts: dict[str, Cut], communicator: Communicator
) -> float:
    r"""Return the norm of all gradients together, of which every rank has pieces.

    .. math:: \|g\|^2 = \sum_r \sum_{\text{cut}} \|g_r\|^2 + \sum_{\text{whole}} \|g\|^2

    What every rank has the whole of, all but the names in ``cuts``, counts once
    (eq:global-norm-sharded), and so does a piece that several ranks share.

    Raises
    ------
    ValueError
        If ``grads`` is not a dict of arrays of real numbers; or if the norm is not finite, then
        on every rank.
    """
    check_names("grads", grads)
    whole = {name: grads[name] for name in replicated(grads, cuts)}
    own = {
        name: of_first(grads[name], cuts[name], communicator)
        for name in grads.keys() - whole.keys()
    }
    of_own, of_whole = own_norm(own), own_norm(whole)
    of_own += 0 * of_whole  # NaN, which the others get to know, if that is not finite
    norms = communicator.all_reduce(np.array([of_own]), np.hypot)
    return checked_norm(float(np.hypot(norms[0], of_whole)), grads)
