"""Ranks, and what they say to each other: collectives over threads or MPI."""

from transformer_core.ranks.communicator import (
    CommunicationError,
    Communicator,
    Traffic,
)
from transformer_core.ranks.flat import flatten, unflatten
from transformer_core.ranks.group import Group, grid
from transformer_core.ranks.mpi import MpiCommunicator, guarded, world
from transformer_core.ranks.threads import ThreadCommunicator, on_threads

__all__ = sorted(name for name, value in globals().items() if callable(value))
