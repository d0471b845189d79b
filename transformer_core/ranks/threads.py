"""Ranks as threads of one process: pages and tests run without MPI."""

from collections.abc import Callable
from contextvars import copy_context
from queue import Empty, SimpleQueue
from threading import TIMEOUT_MAX, Thread
from time import monotonic
from typing import Any

import numpy as np

from transformer_core.foundation.checks import check_positive, check_positive_int
from transformer_core.ranks.communicator import END, CommunicationError, Communicator


class ThreadCommunicator(Communicator):
    """A rank that is a thread; made by :func:`on_threads`.

    What is sent is copied: no rank sees what another one writes later.
    """

    def __init__(self, rank: int, queues: list[list[SimpleQueue]], patience: float):
        super().__init__()
        self.rank, self.size = rank, len(queues)
        self.queues = queues  # queues[sender][receiver]
        self.patience = patience

    def carry(self, operation, outgoing, sources):
        for other, array in outgoing.items():
            self.queues[self.rank][other].put((operation, array.copy()))
        return {source: self.take(operation, source) for source in sources}

    def take(self, operation, source):
        try:
            came, array = self.queues[source][self.rank].get(timeout=self.patience)
        except Empty:
            raise CommunicationError(
                f"rank {self.rank}: waited {self.patience:g} s for rank {source} in "
                f"{operation}"
            ) from None
        self.check_operation(operation, came, source)
        return array


def on_threads(
    size: int, work: Callable[..., Any], *arguments: Any, patience: float = 60
) -> list:
    """Call ``work(communicator, *arguments)`` once per rank, each in a thread of its own.

    Parameters
    ----------
    size : int
        How many ranks.
    work : callable
    *arguments
        The same objects for every rank.
    patience : float
        Seconds that a rank waits for another one.

    Returns
    -------
    list
        What each rank returned, in their order.

    Raises
    ------
    ValueError
        If ``size`` is not a positive whole number, or ``patience`` not a positive number.
    CommunicationError
        If the ranks do not call the same operations, or one waits for too long.
    BaseException
        What a rank raised: that of the rank whose error the others' follow from.
    """
    check_positive_int("size", size)
    check_positive("patience", patience)
    patience = float(min(patience, TIMEOUT_MAX))  # the longest that a queue waits
    queues: list = [[SimpleQueue() for _ in range(size)] for _ in range(size)]
    ranks = [ThreadCommunicator(rank, queues, patience) for rank in range(size)]
    results: list = [None] * size
    errors: list[BaseException] = []  # in the order in which they came

    def run(communicator):
        try:
            try:
                results[communicator.rank] = work(communicator, *arguments)
            except SystemExit as end:
                if end.code:
                    raise CommunicationError(
                        f"rank {communicator.rank}: exit status {end.code}"
                    ) from None
            communicator.leave()
        except BaseException as error:
            errors.append(error)
            communicator.carry(END, dict.fromkeys(communicator.others, np.empty(0)), [])

    threads = [
        Thread(target=copy_context().run, args=(run, rank), daemon=True)
        for rank in ranks
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive() and not errors:
            thread.join(0.5)
    until = monotonic() + patience  # one may hang for ever
    for thread in threads:
        thread.join(max(until - monotonic(), 0))
    if errors:
        roots = [e for e in errors if not isinstance(e, CommunicationError)]
        raise (roots or errors)[0]
    return results
