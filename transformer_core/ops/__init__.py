"""One derivation a file: forward and backward side by side, no state.

``y, cache = op(x, ...)`` and ``dx, ... = op_backward(dy, cache)``. What holds for every operation
is said here; its own docstring says only what is special:

- An array holds floating-point numbers, and at least one. What is computed has its dtype: float64
  to check, float32 to train, complex for the complex step. An array of objects holds exact
  numbers, such as fractions.
- A backward pass takes the cotangent of the output, which has the shape of the output, and the
  cache. It returns the gradients of the arrays of the forward pass, each in the shape of its
  array, in the order of the arguments. Ids and masks have none.
- No argument is modified, and no cache by the backward pass.
- A mask, ``keep``, is boolean and True where something takes part.
- Finite numbers give finite numbers, unless the result itself is out of the range of the dtype.
- Whatever does not fit, whether a shape, a dtype or a setting out of its range, raises a
  ``ValueError`` that names the argument, what was expected and what was given.
"""

from transformer_core.ops.attention import attention, attention_backward
from transformer_core.ops.contrastive_loss import (
    contrastive_loss,
    contrastive_loss_backward,
)
from transformer_core.ops.cross_entropy import cross_entropy, cross_entropy_backward
from transformer_core.ops.dropout import dropout, dropout_backward
from transformer_core.ops.embedding import (
    embedding,
    embedding_backward,
    tied_readout,
    tied_readout_backward,
)
from transformer_core.ops.gated_product import gated_product, gated_product_backward
from transformer_core.ops.gelu import gelu, gelu_backward, gelu_tanh, gelu_tanh_backward
from transformer_core.ops.heads import merge_heads, split_heads
from transformer_core.ops.l2_normalize import l2_normalize, l2_normalize_backward
from transformer_core.ops.layer_norm import layer_norm, layer_norm_backward
from transformer_core.ops.linear import linear, linear_backward
from transformer_core.ops.low_rank import low_rank, low_rank_backward
from transformer_core.ops.masks import (
    cached_keep,
    causal_keep,
    padding_keep,
    window_keep,
)
from transformer_core.ops.mean_pool import mean_pool, mean_pool_backward
from transformer_core.ops.mean_squared_error import (
    mean_squared_error,
    mean_squared_error_backward,
)
from transformer_core.ops.positions import sinusoidal_positions
from transformer_core.ops.relu import relu, relu_backward
from transformer_core.ops.rms_norm import rms_norm, rms_norm_backward
from transformer_core.ops.rotary import (
    pairs_to_halves,
    rotary,
    rotary_backward,
    rotary_frequencies,
)
from transformer_core.ops.rounding import round_rows, round_to
from transformer_core.ops.silu import silu, silu_backward
from transformer_core.ops.soft_cap import soft_cap, soft_cap_backward
from transformer_core.ops.softmax import log_softmax, softmax, softmax_backward
from transformer_core.ops.tanh import tanh, tanh_backward
from transformer_core.ops.tiled_attention import (
    tiled_attention,
    tiled_attention_backward,
)

__all__ = sorted(name for name, value in globals().items() if callable(value))
