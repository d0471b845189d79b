"""Texts as documents: read from files, and split so that nothing leaks."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from transformer_core.foundation.checks import is_real

PASSAGE = 1000  # characters
SUFFIXES = ".txt", ".md", ".rst"


class Document(NamedTuple):
    name: str
    text: str


def read_documents(path: str | Path) -> list[Document]:
    """Read a text file, or all .txt, .md and .rst files in a folder and the folders in it.

    A document is a passage: as many whole paragraphs of a file as make 1000 characters. Empty
    lines part the paragraphs. A passage that occurs twice is read once.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    list of Document
    """
    if not isinstance(path, (str, Path)) or path == "":
        raise ValueError(f"path: expected a file or a folder, got {path!r}")
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES)
        files = [file for file in files if file.is_file()]
        if not files:
            raise ValueError(
                f"{path}: expected {', '.join(SUFFIXES)} files in the folder, found none"
            )
    else:
        files = [path]
    documents: dict[str, Document] = {}
    for file in files:
        for k, passage in enumerate(passages(read_text(file))):
            documents.setdefault(passage, Document(f"{file.name} {k}", passage))
    if not documents:
        raise ValueError(f"{path}: expected text, found only white space")
    return list(documents.values())


def read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{file}: expected text in UTF-8, got byte {error.object[error.start]:#04x} at "
            f"{error.start}"
        ) from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{file}: expected a readable file, got: {error}") from None


def passages(text: str) -> Iterator[str]:
    """Yield whole paragraphs of a text, joined until they make a passage."""
    passage, paragraph = [], []
    for line in [*text.splitlines(), ""]:
        if line.strip():
            paragraph.append(" ".join(line.split()))
        elif paragraph:
            passage.append(" ".join(paragraph))
            paragraph = []
            if sum(map(len, passage)) >= PASSAGE:
                yield "\n".join(passage)
                passage = []
    if passage:
        yield "\n".join(passage)


def split(
    documents: list[Document], share: float = 0.05
) -> tuple[list[str], list[str]]:
    """Hold some documents out of training, always the same ones.

    Documents of the same name, such as two methods called ``sum``, are likely to say the same:
    they fall on the same side, which the hash of the name decides.

    Parameters
    ----------
    documents : list of Document
    share : float
        Of the names to hold out, between 0 and 1.

    Returns
    -------
    training, held_out : list of str
        The texts, in their order.
    """
    check_share(share)
    sides: tuple[list[str], list[str]] = [], []
    for document in documents:
        sides[is_held_out(document.name, share)].append(document.text)
    if not all(sides):
        raise ValueError(
            f"documents: expected enough to train on and to hold {share:.0%} out, got "
            f"{len(documents)}"
        )
    return sides


def is_held_out(name: str, share: float = 0.05) -> bool:
    """Tell whether :func:`split` holds the documents of a name out."""
    if not isinstance(name, str):
        raise ValueError(f"name: expected a string, got {name!r:.60}")
    check_share(share)
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8]) < float(share) * 2**64


def check_share(share):
    if not is_real(share) or not 0 < share < 1:
        raise ValueError(f"share: expected a number between 0 and 1, got {share}")
