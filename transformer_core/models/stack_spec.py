"""How large a stack of layers is, and the sequences that it works on."""

from dataclasses import dataclass

from transformer_core.foundation.checks import check_positive_int


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

    Raises
    ------
    ValueError
        If one of them is not a positive whole number.
    """

    vocabulary: int
    length: int
    layers: int

    def __post_init__(self):
        for name in ("vocabulary", "length", "layers"):
            check_positive_int(name, getattr(self, name))
