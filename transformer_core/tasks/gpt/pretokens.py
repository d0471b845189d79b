"""GPT-2's pre-tokeniser: where a text is cut before any byte pair is merged."""

from collections.abc import Iterator
from unicodedata import category

CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
CONTROLS_THAT_ARE_SPACE = (
    "\t\n\v\f\r\x85"  # \s has none of \x1c to \x1f, str.isspace has
)


class Kinds(dict):
    """The kind of every character: letter, number, space or other, by its code point."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        kind = category(character)[0]
        if kind == "Z" or character in CONTROLS_THAT_ARE_SPACE:
            kind = "S"
        elif kind not in "LN":
            kind = "O"
        self[code] = kind
        return kind


KINDS = Kinds()


def pretokens(text: str) -> Iterator[str]:
    r"""Yield the pieces of a text; put together they are the text.

    A piece is the first of these that fits, as long as it can be (:eq:`pretokens`)::

        's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

    Parameters
    ----------
    text : str

    References
    ----------
    Radford et al. 2019, in ``encoder.py`` of the published code.
    """
    kinds = text.translate(KINDS)
    start, length = 0, len(text)
    while start < length:
        end = start + 1
        if text[start] == "'":
            for contraction in CONTRACTIONS:
                if text.startswith(contraction, start):
                    end = start + len(contraction)
                    break
            if end > start + 1:
                yield text[start:end]
                start = end
                continue
        kind = kinds[start]
        if text[start] == " " and end < length and kinds[end] != "S":
            kind = kinds[end]  # one blank belongs to what follows it
        while end < length and kinds[end] == kind:
            end += 1
        if kind == "S" and end < length and end > start + 1:
            end -= 1  # \s+(?!\S): the last one is left to what follows
        yield text[start:end]
        start = end
