"""Some of the ranks as a communicator of their own: a grid of machines is made of such groups."""

from collections.abc import Iterable

from transformer_core.foundation.checks import as_list, check_positive_int
from transformer_core.ranks.communicator import Communicator, is_rank


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
        If a rank is not one of ``communicator``, is named twice, or this one is not.
    """

    def __init__(self, communicator: Communicator, ranks: Iterable[int]):
        super().__init__()
        self.communicator, self.ranks = communicator, as_list("ranks", ranks)
        if (
            not all(is_rank(rank, communicator.size) for rank in self.ranks)
            or len(set(self.ranks)) < len(self.ranks)
            or communicator.rank not in self.ranks
        ):
            raise ValueError(
                f"ranks: expected {communicator.rank} and others, each once, of 0 to "
                f"{communicator.size - 1}, got {self.ranks}"
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
