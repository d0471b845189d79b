"""Ranks as processes, on one machine or many, that ``mpiexec`` has started."""

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn

import numpy as np

from transformer_core.foundation.checks import check_positive
from transformer_core.ranks.communicator import CommunicationError, Communicator

PATIENCE = 300.0  # seconds
HEADER = 128  # bytes
# What tells a process its rank: MPICH, Intel MPI and MS-MPI; Open MPI; PMIx.
RANK = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
give_way = getattr(os, "sched_yield", partial(time.sleep, 0))


class MpiCommunicator(Communicator):
    """A rank that is a process of MPI; :func:`world` makes it.

    An array goes as a header of 128 bytes (operation, dtype, shape; not counted in ``sent``) and
    its own bytes. An operation also waits until the others take what it sends: two ranks that
    both :meth:`send` and only then :meth:`receive` may wait for each other in vain.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    patience : float
        Seconds that this rank waits for the others in one operation.
    """

    def __init__(self, comm: Any, patience: float = PATIENCE):
        super().__init__()
        check_positive("patience", patience)
        self.comm, self.patience = comm, patience
        self.rank, self.size = comm.Get_rank(), comm.Get_size()

    def carry(self, operation, outgoing, sources):
        headers = {source: bytearray(HEADER) for source in sources}
        coming = [(s, self.comm.Irecv(headers[s], s, tag=0)) for s in sources]
        rest = []
        for other, array in outgoing.items():
            rest.append(
                (other, self.comm.Isend(header(operation, array), other, tag=0))
            )
            rest.append((other, self.comm.Isend(as_bytes(array), other, tag=1)))
        incoming = {}
        for source in self.completed(operation, coming):
            came, dtype, shape = json.loads(headers[source])
            self.check_operation(operation, came, source)
            incoming[source] = np.empty(shape, dtype)
            body = self.comm.Irecv(as_bytes(incoming[source]), source, tag=1)
            rest.append((source, body))
        for _ in self.completed(operation, rest):
            pass
        return incoming

    def abort(self, status: int) -> NoReturn:
        """End the processes of all ranks."""
        self.comm.Abort(status)
        os._exit(status)  # mpiexec may take a while to do so

    def completed(self, operation, requests):
        """Wait for requests; give the rank of each when it is done.

        The first 2 ms without news, other processes may have the core; then this one sleeps.
        """
        since, nap = time.monotonic(), 1e-5
        while requests:
            waiting = []
            for rank, request in requests:
                if request.Test():
                    yield rank
                else:
                    waiting.append((rank, request))
            waited = time.monotonic() - since
            if len(waiting) == len(requests) and waited > self.patience:
                ranks = " and ".join(str(rank) for rank in sorted(dict(waiting)))
                raise CommunicationError(
                    f"rank {self.rank}: waited {self.patience:g} s for rank {ranks} in "
                    f"{operation}"
                )
            if waited < 2e-3:
                give_way()
            else:
                time.sleep(nap)
                nap = min(2 * nap, 1e-3)
            requests = waiting


def header(operation, array):
    """Return what says which array follows."""
    text = json.dumps([operation, array.dtype.str, array.shape]).encode()
    if len(text) > HEADER:
        raise ValueError(
            f"operation: expected a name for a header of {HEADER} bytes, got {operation!r}"
        )
    return text.ljust(HEADER)


def as_bytes(array):
    """Return the bytes of an array; of one without gaps, in its own memory."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def world(patience: float | None = None) -> Communicator:
    """Return all ranks that ``mpiexec`` has started, or this process alone if it has not.

    On many ranks, matrices are multiplied by one thread each, unless the environment says how many
    (``OMP_NUM_THREADS``, ``OPENBLAS_NUM_THREADS``, ``MKL_NUM_THREADS`` or
    ``VECLIB_MAXIMUM_THREADS``). Use it with :func:`guarded`: an error outside leaves the other
    ranks waiting.

    Parameters
    ----------
    patience : float, optional
        Seconds that a rank waits for others in one operation. By default, what the environment
        variable ``TRANSFORMER_CORE_PATIENCE`` says, or else 300.

    Raises
    ------
    ModuleNotFoundError
        If ``mpiexec`` has started this process and mpi4py is missing: on rank 0. The others exit.
    ValueError
        If the patience is not a positive number.
    """
    if patience is not None:
        check_positive("patience", patience)
    ranks = [os.environ[name] for name in RANK if name in os.environ]
    if not ranks:
        return Communicator()
    try:
        from mpi4py import MPI
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError:
        if int(ranks[0]):
            sys.exit(1)
        raise
    if not any(name in os.environ for name in THREADS):
        threadpool_limits(1, "blas")
    if patience is None:
        given = os.environ.get("TRANSFORMER_CORE_PATIENCE", PATIENCE)
        try:
            patience = float(given)
        except ValueError:
            raise ValueError(
                f"TRANSFORMER_CORE_PATIENCE: expected seconds, got {given!r}"
            ) from None
    return MpiCommunicator(MPI.COMM_WORLD, patience)


@contextmanager
def guarded(
    communicator: Communicator,
    explain: Callable[[BaseException], tuple[int, str] | None] = lambda error: None,
) -> Iterator[Communicator]:
    """End all ranks when one of them fails, with one message; wait for all at the end.

    A rank that ends while others still expect something of it is a failure of theirs. With any
    carrier other than MPI, errors propagate as usual.

    Parameters
    ----------
    communicator : Communicator
    explain : callable, optional
        Returns the exit status and the message for an error, or None for one that it does not
        know: status 1 and the traceback.
    """
    if not isinstance(communicator, MpiCommunicator):
        yield communicator
        return
    try:
        try:
            yield communicator
        except SystemExit as end:
            if not end.code:
                communicator.leave()
            raise
        communicator.leave()
    except BaseException as error:
        if isinstance(error, SystemExit) and not error.code:
            raise
        status, message = explain(error) or describe(communicator.rank, error)
        # What many ranks find, the first of them says, and ends the others.
        time.sleep(0.7 * min(communicator.rank, 4))
        sys.stdout.flush()
        print(message, end="\n" if message else "", file=sys.stderr, flush=True)
        time.sleep(0.2)  # mpiexec passes on what is written, if it is given the time
        communicator.abort(status)


def describe(rank, error):
    """Return the exit status and the message for an error that nobody explains."""
    if isinstance(error, SystemExit):
        if isinstance(error.code, int):
            return error.code, f"rank {rank}: exit status {error.code}"
        return 1, f"rank {rank}: {error.code}"
    if isinstance(error, CommunicationError):
        return 1, f"error: {error}"
    return 1, f"rank {rank}: " + "".join(traceback.format_exception(error)).rstrip()
