"""What the heads of an attention layer are like."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any

from numpy.typing import DTypeLike

from transformer_core.foundation.checks import (
    check_choice,
    check_dtype,
    check_kind,
    check_positive_int,
)
from transformer_core.layers.qk_norm import QkNorm
from transformer_core.layers.rotary import Rotary
from transformer_core.ops.heads import check_heads

# What queries and keys may go through, head by head, before their products: rotated by their
# positions, normalised. A new one is a new file and a line here. It is built by (d_k, dtype) and
# the settings of the spec, once for the queries and once for the keys; forward(x, first) maps
# (B, H, T, d_k) to (B, H, T, d_k), of the positions from ``first`` on, and backward(dy, cache)
# returns dx and the gradients.
TRANSFORMS: dict[str, Callable] = {
    "rotary": Rotary,
    "rotary_halves": partial(Rotary, halves=True),
    "qk_norm_rotary": QkNorm,
    "qk_norm_rotary_halves": partial(QkNorm, halves=True),
}

GIVEN = {"width", "dtype", "halves"}  # by the layer, and by the name of the transform


@dataclass(frozen=True)
class AttentionSpec:
    """The heads of an attention layer.

    Parameters
    ----------
    heads : int
        H.
    key_width, value_width : int, optional
        d_k, of queries and keys, and d_v, of values. Default: D / H, and H has to divide D.
    bias : bool
        False: none of the projections has one.
    key_heads : int, optional
        How many heads of keys and values there are, each shared by as many heads of queries: a
        divisor of H, and the default is H.
    transform : str or mapping, optional
        Of queries and keys, by its name in ``TRANSFORMS``. A mapping has the name under "kind", and
        what else it is built with, such as the "base" and the "scaling" of ``Rotary``. Default:
        none.
    window : int, optional
        w: in self-attention each position attends to the last w alone, itself included
        (eq:window-keep). Default: to all that the other masks let it see.
    tile : int, optional
        Attend in tiles of so many positions, without the whole matrix of scores
        (eq:online-softmax). Default: with it.

    Raises
    ------
    ValueError
        If a number is not a positive whole one, or has to divide another and does not, or the
        transform is unknown.
    """

    heads: int
    key_width: int | None = None
    value_width: int | None = None
    bias: bool = True
    key_heads: int | None = None
    transform: str | Mapping | None = None
    window: int | None = None
    tile: int | None = None

    def __post_init__(self):
        check_positive_int("heads", self.heads)
        for name in ("key_width", "value_width", "key_heads", "window", "tile"):
            value = getattr(self, name)
            if value is not None:
                check_positive_int(name, value)
        if self.heads % (self.key_heads or 1):
            raise ValueError(
                f"key_heads: expected a divisor of the {self.heads} heads, got {self.key_heads}"
            )
        check_kind("bias", self.bias, bool)
        if self.transform is not None:
            kind, settings = self.transform_settings()
            check_choice("transform", kind, TRANSFORMS)
            known = signature(TRANSFORMS[kind]).parameters.keys() - GIVEN
            for name in settings:
                check_choice(f"transform: settings of {kind}", name, sorted(known))

    @classmethod
    def of(cls, value: "AttentionSpec | int") -> "AttentionSpec":
        """Return a spec as it is, or that of a number of heads."""
        return value if isinstance(value, AttentionSpec) else cls(value)

    def head_widths(self, width: int) -> tuple[int, int]:
        """Return d_k and d_v in a model of a width D."""
        check_positive_int("width", width)
        if self.key_width is None or self.value_width is None:
            check_heads(width, self.heads)
        own = width // self.heads
        return self.key_width or own, self.value_width or own

    def projected_widths(self, width: int) -> tuple[int, int, int]:
        """Return how wide all queries are together, all keys, and all values."""
        key, value = self.head_widths(width)
        key_heads = self.key_heads or self.heads
        return self.heads * key, key_heads * key, key_heads * value

    def transform_settings(self) -> tuple[Any, dict]:
        """Return the name of the transform, and what else it is built with."""
        if isinstance(self.transform, Mapping):
            settings = dict(self.transform)
            return settings.pop("kind", None), settings
        return self.transform, {}

    def make_transform(self, width: int, dtype: DTypeLike) -> Any:
        """Build the transform of queries or keys of a width d_k, or None where there is none."""
        check_positive_int("width", width)
        check_dtype("dtype", dtype)
        kind, settings = self.transform_settings()
        return TRANSFORMS[kind](width, dtype, **settings) if kind else None
