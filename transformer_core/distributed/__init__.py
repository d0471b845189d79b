"""One training on many machines: what they send, and what each of them keeps."""

from transformer_core.distributed.communicator import (
    CommunicationError,
    Communicator,
    Traffic,
)
from transformer_core.distributed.flat import flatten, unflatten
from transformer_core.distributed.group import Group, grid
from transformer_core.distributed.mpi import MpiCommunicator, guarded, world
from transformer_core.distributed.pieces import cut, gather, norm_of_pieces
from transformer_core.distributed.pipeline import PipelineBert
from transformer_core.distributed.schedules import (
    Step,
    bubble,
    gpipe,
    live_activations,
    one_forward_one_backward,
)
from transformer_core.distributed.sequence_parallel import (
    SequenceParallelEncoder,
    sequence_pair,
)
from transformer_core.distributed.sharded_optimizer import (
    Bucket,
    ReducedLayer,
    ShardedOptimizer,
)
from transformer_core.distributed.sharded_parameters import (
    GatheredLayer,
    ShardedParameters,
)
from transformer_core.distributed.tensor_parallel import (
    Collective,
    ColumnParallel,
    OwnDraws,
    ParallelSelfAttention,
    RowParallel,
    conjugate_pair,
)
from transformer_core.distributed.tensor_parallel_bert import TensorParallelBert
from transformer_core.distributed.threads import ThreadCommunicator, on_threads
from transformer_core.distributed.vocabulary_parallel import (
    ParallelReadout,
    VocabularyEmbedding,
    vocabulary_cross_entropy,
    vocabulary_cross_entropy_backward,
)

__all__ = [
    "Bucket",
    "Collective",
    "ColumnParallel",
    "CommunicationError",
    "Communicator",
    "GatheredLayer",
    "Group",
    "MpiCommunicator",
    "OwnDraws",
    "ParallelReadout",
    "ParallelSelfAttention",
    "PipelineBert",
    "ReducedLayer",
    "RowParallel",
    "SequenceParallelEncoder",
    "ShardedOptimizer",
    "ShardedParameters",
    "Step",
    "TensorParallelBert",
    "ThreadCommunicator",
    "Traffic",
    "VocabularyEmbedding",
    "bubble",
    "conjugate_pair",
    "cut",
    "flatten",
    "gather",
    "gpipe",
    "grid",
    "guarded",
    "live_activations",
    "norm_of_pieces",
    "on_threads",
    "one_forward_one_backward",
    "sequence_pair",
    "unflatten",
    "vocabulary_cross_entropy",
    "vocabulary_cross_entropy_backward",
    "world",
]
