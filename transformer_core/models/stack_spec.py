"""How large a stack of layers is, and the sequences that it works on."""

from dataclasses import dataclass

from transformer_core.foundation.checks import check_kind, check_positive_int


@dataclass(frozen=True)
class StackSpec:
    """A stack of layers, and the tokens that it is made for.

    Parameters
    ----------
    vocabulary : int
        V.
    length : int
        Of the longest sequence.
    layers : int
        L.
    recompute : bool
        Keep only the input of each layer, and compute its forward pass again in the backward pass.

    Raises
    ------
    ValueError
        If a number is not a positive whole one.
    """

    vocabulary: int
    length: int
    layers: int
    recompute: bool = False

    def __post_init__(self):
        for name in ("vocabulary", "length", "layers"):
            check_positive_int(name, getattr(self, name))
        check_kind("recompute", self.recompute, bool)
