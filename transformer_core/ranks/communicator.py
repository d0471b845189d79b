"""What ranks say to each other: one primitive, and the collectives made of it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from transformer_core.foundation.checks import (
    as_list,
    check_array,
    check_names,
    check_whole,
)

END = "end"  # the operation of a rank that will send nothing more


class CommunicationError(RuntimeError):
    """A rank waited in vain, or got what it did not expect."""


@dataclass
class Traffic:
    """What one rank has sent to others in one kind of operation."""

    messages: int = 0
    bytes: int = 0


class Communicator:
    """One rank among ``size``; by itself, one process alone.

    A carrier of messages says in ``carry`` how arrays come from one rank to another. All else is
    derived from it here, so that every carrier gives the same bits: what is summed is summed in
    the order of the ranks. Every rank has to call the same operations in the same order.

    Attributes
    ----------
    rank, size : int
        This rank, 0 to ``size`` - 1, and how many there are.
    sent : dict
        By operation, the :class:`Traffic`: messages and bytes sent to other ranks.
        ``sent.clear()`` starts anew.

    Raises
    ------
    ValueError
        From every operation, before anything is sent: if what it is given is not an array of
        numbers, or a rank or an axis is not one that is there.
    CommunicationError
        From every operation: if another rank has ended, calls another operation, sends an array of
        another shape or dtype, or keeps this one waiting for too long.
    """

    rank, size = 0, 1

    def __init__(self):
        self.sent: dict[str, Traffic] = {}

    def carry(
        self, operation: str, outgoing: dict[int, np.ndarray], sources: list[int]
    ) -> dict[int, np.ndarray]:
        """Send arrays to ranks, and return one from each source; in turn for each pair."""
        return {}

    def swap(
        self,
        operation: str,
        outgoing: dict[int, np.ndarray],
        sources: Iterable[int] = (),
    ) -> dict[int, np.ndarray]:
        """Send an array to each of some ranks, receive one from each of some, and count.

        Parameters
        ----------
        operation : str
            What this is part of. Both sides have to call it the same.
        outgoing : dict of int to ndarray
            By the rank that gets it. Not modified.
        sources : iterable of int
            The ranks that send one to this rank.

        Returns
        -------
        dict of int to ndarray
            By the rank that sent it: arrays of one's own.

        Raises
        ------
        ValueError
            If a rank is not one of the others, or what goes out is not a dict of arrays of numbers.
        CommunicationError
            As all operations do.
        """
        check_names("outgoing", outgoing)
        sources = as_list("sources", sources)
        for other in (*outgoing, *sources):
            self.check_other(other)
        for other, array in outgoing.items():
            if not isinstance(array, np.ndarray) or array.dtype.kind not in "biufc":
                raise ValueError(
                    f"array for rank {other}: expected a NumPy array of numbers, "
                    f"got {getattr(array, 'dtype', type(array).__name__)}"
                )
        traffic = self.sent.setdefault(operation, Traffic())
        traffic.messages += len(outgoing)
        traffic.bytes += sum(array.nbytes for array in outgoing.values())
        return self.carry(operation, outgoing, sources)

    def leave(self) -> None:
        """End: send nothing more, and wait until no other rank will."""
        self.carry(END, dict.fromkeys(self.others, np.empty(0)), self.others)

    def check_other(self, rank):
        """Raise ``ValueError`` unless ``rank`` is one of the other ranks."""
        if not is_rank(rank, self.size) or rank == self.rank:
            raise ValueError(
                f"rank: expected one of 0 to {self.size - 1}, other than {self.rank}, "
                f"got {rank}"
            )

    def check_operation(self, operation: str, came: str, source: int) -> None:
        """Raise ``CommunicationError`` if a rank takes part in another operation."""
        if came == operation:
            return
        if operation == END:
            message = (
                f"rank {source}: expected {came} from rank {self.rank}, which has ended"
            )
        else:
            got = "which has ended" if came == END else f"got {came}"
            message = (
                f"rank {self.rank}: expected {operation} from rank {source}, {got}"
            )
        raise CommunicationError(message)

    def check_like(self, operation, array, dtype, shape, source):
        """Raise ``CommunicationError`` if what a rank sent does not go with what is here."""
        if dtype != array.dtype or shape != array.shape:
            raise CommunicationError(
                f"rank {self.rank}: expected {array.dtype} {array.shape} from rank {source} "
                f"in {operation}, got {dtype} {shape}"
            )

    @property
    def others(self) -> list[int]:
        """The other ranks, in their order."""
        return [rank for rank in range(self.size) if rank != self.rank]

    def bounds(self, length: int) -> list[slice]:
        """Cut a length into one range per rank, as equal as can be."""
        check_whole("length", length)
        edges = [length * rank // self.size for rank in range(self.size + 1)]
        return [slice(*edge) for edge in zip(edges, edges[1:], strict=False)]

    def exchange(
        self, parts: Sequence[np.ndarray], operation: str = "exchange"
    ) -> list[np.ndarray]:
        """Give part j to rank j; return what every rank has for this one, in their order."""
        parts = as_list("parts", parts)
        if len(parts) != self.size:
            raise ValueError(
                f"parts: expected one for each of {self.size} ranks, got {len(parts)}"
            )
        outgoing = {rank: parts[rank] for rank in self.others}
        incoming = self.swap(operation, outgoing, self.others)
        return [incoming.get(rank, parts[self.rank]) for rank in range(self.size)]

    def all_gather(self, piece: np.ndarray, axis: int = 0) -> np.ndarray:
        r"""Join the pieces of all ranks along an axis, in their order (eq:all-gather).

        Sends (N - 1) times the piece. Every rank gets the same.
        """
        check_axis("piece", piece, axis)
        pieces = self.exchange([piece] * self.size, "all_gather")
        for rank, other in enumerate(pieces):
            shape = list(other.shape)
            if other.ndim == piece.ndim:
                shape[axis] = piece.shape[axis]  # the axis that may differ
            self.check_like("all_gather", piece, other.dtype, tuple(shape), rank)
        return np.concatenate(pieces, axis)

    def reduce_scatter(
        self, array: np.ndarray, axis: int = 0, fold: Callable = np.add
    ) -> np.ndarray:
        r"""Sum the arrays of all ranks, and return this rank's piece (eq:reduce-scatter).

        The pieces are those of :meth:`bounds` along the axis. Sends the pieces of the others.

        Parameters
        ----------
        array : ndarray
            Of the same shape and dtype on every rank. Not modified.
        axis : int
        fold : ufunc
            ``np.add``, or ``np.maximum``, say. Called rank by rank.
        """
        check_axis("array", array, axis)
        index = [slice(None)] * array.ndim
        parts = []
        for piece in self.bounds(array.shape[axis]):
            index[axis] = piece
            parts.append(array[tuple(index)])
        first, *rest = self.exchange(parts, "reduce_scatter")
        total = np.array(first)
        for rank, part in enumerate(rest, 1):
            self.check_like("reduce_scatter", total, part.dtype, part.shape, rank)
            fold(total, part, out=total)
        return total

    def all_reduce(self, array: np.ndarray, fold: Callable = np.add) -> np.ndarray:
        r"""Sum the arrays of all ranks; every rank gets the same sum (eq:all-reduce).

        A reduce-scatter and an all-gather of the flat array: N ranks send
        2 (N - 1) times its bytes together.
        """
        check_array("array", array)
        piece = self.reduce_scatter(array.reshape(-1), fold=fold)
        return self.all_gather(piece).reshape(array.shape)

    def broadcast(self, array: np.ndarray, root: int = 0) -> np.ndarray:
        """Give the array of one rank to all (eq:broadcast); what the others pass is not used."""
        if not is_rank(root, self.size):
            raise ValueError(
                f"rank: expected one of 0 to {self.size - 1}, got {root!r}"
            )
        if self.rank == root:
            self.swap("broadcast", dict.fromkeys(self.others, array))
            return array
        return self.swap("broadcast", {}, [root])[root]

    def send(self, array: np.ndarray, to: int) -> None:
        """Send an array to one rank, which has to :meth:`receive` it."""
        self.check_other(to)
        self.swap("send", {to: array})

    def receive(self, source: int) -> np.ndarray:
        """Return the array that a rank sends to this one."""
        return self.swap("send", {}, [source])[source]

    def barrier(self) -> None:
        """Wait until every rank is here."""
        self.exchange([np.empty(0)] * self.size, "barrier")


def is_rank(rank, size):
    """Tell a whole number from 0 to ``size`` - 1 from all else."""
    whole = isinstance(rank, (int, np.integer)) and not isinstance(rank, bool)
    return whole and 0 <= rank < size


def check_axis(name, array, axis):
    """Raise ``ValueError`` unless ``array`` is an array with that axis; it may be empty."""
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name}: expected a NumPy array, got {type(array).__name__}")
    check_whole("axis", axis, -array.ndim)
    if axis >= array.ndim:
        raise ValueError(
            f"axis: expected one of the {array.ndim} axes of {name}, got {axis}"
        )
