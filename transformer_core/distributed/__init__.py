"""One training on many machines: what they send, and what each of them keeps."""

from transformer_core.distributed.communicator import (
    CommunicationError,
    Communicator,
    Traffic,
)
from transformer_core.distributed.flat import flatten, unflatten
from transformer_core.distributed.mpi import MpiCommunicator, guarded, world
from transformer_core.distributed.threads import ThreadCommunicator, on_threads

__all__ = [
    "CommunicationError",
    "Communicator",
    "MpiCommunicator",
    "ThreadCommunicator",
    "Traffic",
    "flatten",
    "guarded",
    "on_threads",
    "unflatten",
    "world",
]
