"""Some of the ranks, among themselves."""

from collections.abc import Sequence

from transformer_core.distributed.communicator import Communicator


class Group(Communicator):
    """Some ranks of a communicator, as one of their own: member ``members[i]`` is its rank i.

    Every member makes it, with the same members; the others take no part. What is sent in it
    counts in ``whole.sent``.

    Parameters
    ----------
    whole : Communicator
    members : sequence of int
        Ranks of ``whole``, each once, this one among them.

    Raises
    ------
    ValueError
        If the members are not ranks, one is named twice, or this rank is not among them.
    """

    def __init__(self, whole: Communicator, members: Sequence[int]):
        ranks = range(whole.size)
        if len(set(members)) < len(members) or not set(members) <= set(ranks):
            raise ValueError(
                f"members: expected ranks 0 to {whole.size - 1}, each once, got {members}"
            )
        if whole.rank not in members:
            raise ValueError(
                f"members: expected rank {whole.rank} among them, got {members}"
            )
        self.whole, self.members = whole, list(members)
        self.rank, self.size = self.members.index(whole.rank), len(members)
        self.sent = whole.sent

    def carry(self, operation, outgoing, sources):
        incoming = self.whole.carry(
            operation,
            {self.members[rank]: array for rank, array in outgoing.items()},
            [self.members[rank] for rank in sources],
        )
        return {rank: incoming[self.members[rank]] for rank in sources}
