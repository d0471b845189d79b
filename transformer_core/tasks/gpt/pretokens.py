"""GPT-2's pre-tokeniser: where a text is cut before any byte pair is merged."""

from functools import cache
from unicodedata import category

CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
CONTROLS_THAT_ARE_SPACE = (
    "\t\n\v\f\r\x85"  # \s has none of \x1c to \x1f, str.isspace has
)


@cache
def kind_of(character: str) -> str:
    """Return the kind of a character: L, a letter; N, a number; S, space; or O, other."""
    general = category(character)[0]
    if general == "Z" or character in CONTROLS_THAT_ARE_SPACE:
        return "S"
    return general if general in "LN" else "O"


def pretokens(text: str) -> list[str]:
    r"""Return the pieces of a text; put together they are the text.

    A piece is the first of these that fits, as long as it can be (eq:pretokens)::

        's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

    Parameters
    ----------
    text : str

    Source: Radford et al. 2019, in ``encoder.py`` of the published code.
    """
    if not isinstance(text, str):
        raise ValueError(f"text: expected a string, got {type(text).__name__}")
    kinds = "".join(map(kind_of, text))
    pieces, start = [], 0
    while start < len(text):
        end = end_of_piece(text, kinds, start)
        pieces.append(text[start:end])
        start = end
    return pieces


def end_of_piece(text, kinds, start):
    if text[start] == "'":
        for contraction in CONTRACTIONS:
            if text.startswith(contraction, start):
                return start + len(contraction)
    kind, end = kinds[start], start + 1
    if text[start] == " " and end < len(text) and kinds[end] != "S":
        kind = kinds[end]  # one blank belongs to what follows it
    while end < len(text) and kinds[end] == kind:
        end += 1
    if kind == "S" and start + 1 < end < len(text):
        end -= 1  # \s+(?!\S): the last one is left to what follows
    return end
