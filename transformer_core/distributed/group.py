"""Some of the ranks as a communicator of their own: a grid of machines is made of such groups."""

from collections.abc import Iterable

from transformer_core.distributed.communicator import Communicator
from transformer_core.foundation.checks import check_positive_int


class Group(Communicator):
    """Some ranks of a communicator, in the order in which they are named.

    Parameters
    ----------
    communicator : Communicator
    ranks : iterable of int
        Ranks of ``communicator``, this one among them; the first becomes rank 0.

    Attributes
    ----------
    rank, size, sent
        Within the group. ``communicator.sent`` counts the same messages, too.

    Raises
    ------
    ValueError
        If a rank is named twice, or this one is not.
    """

    def __init__(self, communicator: Communicator, ranks: Iterable[int]):
        super().__init__()
        self.communicator, self.ranks = communicator, list(ranks)
        if (
            len(set(self.ranks)) < len(self.ranks)
            or communicator.rank not in self.ranks
        ):
            raise ValueError(
                f"ranks: expected {communicator.rank} and others, each once, "
                f"got {self.ranks}"
            )
        self.rank, self.size = self.ranks.index(communicator.rank), len(self.ranks)

    def carry(self, operation, outgoing, sources):
        incoming = self.communicator.swap(
            operation,
            {self.ranks[other]: array for other, array in outgoing.items()},
            [self.ranks[source] for source in sources],
        )
        return {self.ranks.index(source): array for source, array in incoming.items()}


def grid(communicator: Communicator, tensor: int) -> tuple[Group, Group]:
    """Arrange the ranks in rows that hold one model each, and columns that hold the same piece.

    Parameters
    ----------
    communicator : Communicator
    tensor : int
        The number of ranks in a row.

    Returns
    -------
    row, column : Group
        Of this rank: for tensor parallel, and for data parallel.

    Raises
    ------
    ValueError
        If ``tensor`` does not divide the number of ranks.
    """
    check_positive_int("tensor", tensor)
    if communicator.size % tensor:
        raise ValueError(
            f"tensor: expected a divisor of the {communicator.size} ranks, got {tensor}"
        )
    row, column = divmod(communicator.rank, tensor)
    ranks = range(communicator.size)
    return (
        Group(communicator, ranks[row * tensor : (row + 1) * tensor]),
        Group(communicator, ranks[column::tensor]),
    )
