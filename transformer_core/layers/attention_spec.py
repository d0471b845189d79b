"""What the heads of an attention layer are like."""

from dataclasses import dataclass

from transformer_core.foundation.checks import check_positive_int, record
from transformer_core.ops.heads import check_heads


@dataclass(frozen=True)
class AttentionSpec:
    """The heads of an attention layer.

    Parameters
    ----------
    heads : int
        H.
    key_width, value_width : int, optional
        K, of queries and keys, and K_v, of values. Default: D / H, and H has to divide D.
    bias : bool
        False: none of the projections has one.
    """

    heads: int
    key_width: int | None = None
    value_width: int | None = None
    bias: bool = True

    @classmethod
    def of(cls, value: "AttentionSpec | int | dict") -> "AttentionSpec":
        """Return a spec as it is, one from its settings, or that of a number of heads."""
        if isinstance(value, AttentionSpec):
            return value
        return (
            record("attention", cls, value) if isinstance(value, dict) else cls(value)
        )

    def head_widths(self, width: int) -> tuple[int, int]:
        """Return K and K_v in a model of a width D."""
        check_positive_int("width", width)
        check_positive_int("heads", self.heads)
        key_width, value_width = self.key_width, self.value_width
        if key_width is None or value_width is None:
            check_heads(width, self.heads)
        key_width = width // self.heads if key_width is None else key_width
        value_width = width // self.heads if value_width is None else value_width
        check_positive_int("key_width", key_width)
        check_positive_int("value_width", value_width)
        return key_width, value_width
