"""How large a stack of layers is, and the sequences that it works on."""

from dataclasses import dataclass


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
    """

    vocabulary: int
    length: int
    layers: int
