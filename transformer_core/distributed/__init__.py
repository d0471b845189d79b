"""One training on many machines: what they send, and what each of them keeps."""

from transformer_core.distributed.communicator import (
    CommunicationError,
    Communicator,
    Traffic,
)
from transformer_core.distributed.flat import flatten, unflatten
from transformer_core.distributed.mpi import MpiCommunicator, guarded, world
from transformer_core.distributed.pipeline import PipelineBert
from transformer_core.distributed.schedules import (
    Step,
    bubble,
    gpipe,
    live_activations,
    one_forward_one_backward,
)
from transformer_core.distributed.threads import ThreadCommunicator, on_threads

__all__ = [
    "CommunicationError",
    "Communicator",
    "MpiCommunicator",
    "PipelineBert",
    "Step",
    "ThreadCommunicator",
    "Traffic",
    "bubble",
    "flatten",
    "gpipe",
    "guarded",
    "live_activations",
    "on_threads",
    "one_forward_one_backward",
    "unflatten",
    "world",
]
