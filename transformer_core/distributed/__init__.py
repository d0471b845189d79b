"""One training on many machines: what they send, and what each of them keeps.

Arguments that do not fit raise a ``ValueError`` that names what was expected and what was
given, in most cases on every rank; a docstring lists only errors of its own.
"""

from transformer_core.distributed.data_parallel import DataParallel
from transformer_core.distributed.local_steps import LocalSteps
from transformer_core.distributed.pieces import (
    Cut,
    cut,
    cuts_of,
    gather,
    norm_of_pieces,
)
from transformer_core.distributed.pipeline import PipelineBert
from transformer_core.distributed.ring_attention import (
    ring_attention,
    ring_attention_backward,
)
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
    ParallelFeedForward,
    ParallelSelfAttention,
    RowParallel,
    conjugate_pair,
)
from transformer_core.distributed.tensor_parallel_models import (
    TensorParallelBert,
    TensorParallelGpt,
    TensorParallelModel,
)
from transformer_core.distributed.vocabulary_parallel import (
    ParallelReadout,
    VocabularyEmbedding,
    vocabulary_cross_entropy,
    vocabulary_cross_entropy_backward,
)

__all__ = sorted(name for name, value in globals().items() if callable(value))
