"""What a layer of a Transformer is made of: a frozen record that goes into settings as it is."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from transformer_core.foundation.checks import (
    check_choice,
    check_dtype,
    check_kind,
    check_names,
    check_positive,
    check_positive_int,
    check_rate,
    record,
)
from transformer_core.layers.attention_spec import AttentionSpec
from transformer_core.layers.feed_forward import ACTIVATIONS, FeedForward
from transformer_core.layers.gated_feed_forward import GatedFeedForward
from transformer_core.layers.layer import Layer
from transformer_core.layers.layer_norm import LayerNorm
from transformer_core.layers.residual import Residual, check_placement
from transformer_core.layers.rms_norm import RmsNorm

# A new part is a new file and a line here. A norm is built by (width, dtype, eps), a feed-forward
# layer by (width, hidden_width, rng, dtype); to be cut over ranks, it has ``columns`` and ``rows``.
NORMS = {"layer_norm": LayerNorm, "rms_norm": RmsNorm}
FEED_FORWARDS: dict[str, Callable[..., Layer]] = {
    **{name: partial(FeedForward, activation=name) for name in ACTIVATIONS},
    "swiglu": partial(GatedFeedForward, activation="silu"),
    "geglu": partial(GatedFeedForward, activation="gelu"),
    "geglu_tanh": partial(GatedFeedForward, activation="gelu_tanh"),
}


@dataclass(frozen=True)
class NormSpec:
    """A normalisation: which one, by its name in ``NORMS``, and its epsilon."""

    kind: str = "layer_norm"
    eps: float = 1e-5

    def __post_init__(self):
        check_choice("norm", self.kind, NORMS)
        check_positive("eps", self.eps)


@dataclass(frozen=True)
class LayerSpec:
    """What the layers of an encoder or a decoder are made of.

    ``dataclasses.asdict(spec)`` can be written as JSON, and ``from_settings`` reads it.

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
        Which one, by its name in ``FEED_FORWARDS``: "relu", "gelu", "gelu_tanh" or
        "silu" is ``FeedForward`` with this activation, "swiglu", "geglu" or "geglu_tanh" is
        ``GatedFeedForward``.
    dropout : float
        Rate, on the attention weights and on the output of every branch.
    dtype : str or NumPy dtype
        Of the parameters; kept as its name.

    Raises
    ------
    ValueError
        If one of them is not what it is said to be here, or the heads do not divide D.
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
        check_positive_int("hidden_width", self.hidden_width)
        check_placement(self.placement)
        check_kind("norm", self.norm, NormSpec)
        check_choice("feed_forward", self.feed_forward, FEED_FORWARDS)
        check_rate("dropout", self.dropout)
        check_dtype("dtype", self.dtype)
        attention = AttentionSpec.of(self.attention)
        attention.head_widths(self.width)
        object.__setattr__(self, "attention", attention)
        object.__setattr__(self, "dtype", np.dtype(self.dtype).name)

    @classmethod
    def from_settings(cls, settings: dict) -> "LayerSpec":
        """Return the spec that ``asdict`` has made these settings of, perhaps in JSON.

        Fields that have a default may be missing: a spec of an older version has fewer.
        """
        check_names("spec", settings)
        inner = {
            name: record(name, kind, settings[name])
            for name, kind in (("attention", AttentionSpec), ("norm", NormSpec))
            if isinstance(settings.get(name), dict)
        }
        return record("spec", cls, settings | inner)

    def make_residual(self, branch: Layer) -> Residual:
        """Build the residual connection around a branch, with its normalisation."""
        return Residual(branch, self.make_norm(), self.placement, self.dropout)

    def make_norm(self) -> Layer:
        """Build a normalisation of the width D."""
        return NORMS[self.norm.kind](self.width, self.dtype, self.norm.eps)

    def make_feed_forward(self, rng: np.random.Generator) -> Layer:
        """Build a feed-forward layer."""
        make = FEED_FORWARDS[self.feed_forward]
        return make(self.width, self.hidden_width, rng, self.dtype)
