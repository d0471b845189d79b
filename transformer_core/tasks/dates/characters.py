"""Vocabularies of single characters."""

from collections.abc import Iterable, Sequence

import numpy as np

from transformer_core.foundation.checks import check_ids, check_shape

PAD, START, END = 0, 1, 2


class Characters:
    """Gives every character an id; 0 is padding, 1 the start and 2 the end of a target.

    Parameters
    ----------
    characters : iterable of str
        The characters with the ids 3, 4, ...
    """

    def __init__(self, characters: Iterable[str]):
        self.characters = "".join(strings("characters", characters))
        self.id_of = {c: i for i, c in enumerate(self.characters, start=END + 1)}
        if len(self.id_of) != len(self.characters):
            raise ValueError(f"characters: expected each once, got {self.characters!r}")

    def __len__(self) -> int:
        """Return the size V of the vocabulary, special ids included."""
        return END + 1 + len(self.characters)

    def check(self, text: str) -> None:
        """Raise ``ValueError`` unless a text has characters, and each of them an id."""
        if not isinstance(text, str):
            raise ValueError(f"text: expected a string, got {type(text).__name__}")
        if not text:
            raise ValueError("text: expected at least one character, got none")
        unknown = dict.fromkeys(c for c in text if c not in self.id_of)
        if unknown:
            raise ValueError(
                f"{text!r}: expected known characters, got "
                + ", ".join(map(repr, unknown))
            )

    def encode(
        self, texts: Sequence[str], framed: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of some texts, padded to the longest.

        Parameters
        ----------
        texts : sequence of str
        framed : bool
            True: each between a start and an end, as a target.

        Returns
        -------
        ids : ndarray of int (B, T)
        lengths : ndarray of int (B,)
        """
        texts = strings("texts", texts)
        if not texts:
            raise ValueError("texts: expected at least one, got none")
        for text in texts:
            self.check(text)
        rows = [[self.id_of[c] for c in text] for text in texts]
        if framed:
            rows = [[START, *row, END] for row in rows]
        lengths = np.array([len(row) for row in rows])
        ids = np.full((len(rows), lengths.max()), PAD)
        for padded, row in zip(ids, rows, strict=True):
            padded[: len(row)] = row
        return ids, lengths

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Return the text of a row of ids: its characters up to the end, specials left out."""
        ids = np.asarray(ids)
        check_shape("ids", ids, "T")
        check_ids("ids", ids, len(self))
        text = []
        for i in ids:
            if i == END:
                break
            if i > END:
                text.append(self.characters[i - END - 1])
        return "".join(text)


def strings(name: str, values: Iterable[str]) -> list[str]:
    """Return a list of strings; raise ``ValueError`` unless that is what the values are."""
    given = list(values) if isinstance(values, Iterable) else [values]
    wrong = [value for value in given if not isinstance(value, str)]
    if wrong:
        raise ValueError(f"{name}: expected strings, got {wrong[0]!r}")
    return given
