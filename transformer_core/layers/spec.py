"""What a layer of a Transformer is made of: a frozen record that goes into settings as it is."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from transformer_core.foundation.checks import check_choice, check_dtype, record
from transformer_core.layers.attention_spec import AttentionSpec
from transformer_core.layers.feed_forward import ACTIVATIONS, FeedForward
from transformer_core.layers.layer import Layer
from transformer_core.layers.layer_norm import LayerNorm
from transformer_core.layers.residual import Residual

# A new part is a new file and a line here. A norm is built by (width, dtype, eps), a feed-forward
# layer by (width, hidden_width, rng, dtype).
NORMS = {"layer_norm": LayerNorm}
FEED_FORWARDS = {name: partial(FeedForward, activation=name) for name in ACTIVATIONS}


@dataclass(frozen=True)
class NormSpec:
    """A normalisation: which one, by its name in ``NORMS``, and its epsilon."""

    kind: str = "layer_norm"
    eps: float = 1e-5


@dataclass(frozen=True)
class LayerSpec:
    """What the layers of an encoder or a decoder are made of.

    ``dataclasses.asdict(spec)`` can be written as JSON, and ``LayerSpec(**settings)`` reads it.

    Parameters
    ----------
    width : int
        D.
    attention : AttentionSpec or int
        Its heads; a number alone is H.
    hidden_width : int
        F, of the feed-forward layer.
    placement : {"post", "pre"}
        Where the normalisations stand, see ``Residual``.
    norm : NormSpec
    feed_forward : str
        Which one, by its name in ``FEED_FORWARDS``: "relu", "gelu" or "gelu_tanh" is
        ``FeedForward`` with this activation.
    dropout : float
        Rate, on the attention weights and on the output of every branch.
    dtype : str or NumPy dtype
        Of the parameters; kept as its name.
    """

    width: int
    attention: AttentionSpec | int
    hidden_width: int
    placement: str
    norm: NormSpec = NormSpec()
    feed_forward: str = "relu"
    dropout: float = 0.0
    dtype: str = "float32"

    def __post_init__(self):
        check_dtype("dtype", self.dtype)
        given = isinstance(self.norm, NormSpec)
        norm = self.norm if given else record("norm", NormSpec, self.norm)
        for name, value in (
            ("attention", AttentionSpec.of(self.attention)),
            ("norm", norm),
            ("dtype", np.dtype(self.dtype).name),
        ):
            object.__setattr__(self, name, value)

    def make_residual(self, branch: Layer) -> Residual:
        """Build the residual connection around a branch, with its normalisation."""
        return Residual(branch, self.make_norm(), self.placement, self.dropout)

    def make_norm(self) -> Layer:
        """Build a normalisation of the width D."""
        check_choice("norm", self.norm.kind, NORMS)
        make = NORMS[self.norm.kind]
        return make(self.width, self.dtype, self.norm.eps)

    def make_feed_forward(self, rng: np.random.Generator) -> Layer:
        """Build a feed-forward layer."""
        check_choice("feed_forward", self.feed_forward, FEED_FORWARDS)
        make = FEED_FORWARDS[self.feed_forward]
        return make(self.width, self.hidden_width, rng, self.dtype)
