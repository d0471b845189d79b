"""Texts as vectors, and the nearest of them to a question."""

from collections.abc import Iterable
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from transformer_core.foundation.checks import as_list, check_positive_int, check_whole
from transformer_core.tasks.search.sentence_encoder import SentenceEncoder
from transformer_core.tasks.texts.documents import Document
from transformer_core.tasks.texts.wordpiece import (
    CLS,
    PAD,
    SEP,
    SPECIAL_TOKENS,
    check_texts,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOGETHER = 32  # texts that are embedded at once


def with_ends(tokenizer: "Tokenizer") -> "Tokenizer":
    """Let a tokenizer of :func:`train_wordpiece` put [CLS] and [SEP] around a text."""
    from tokenizers.processors import TemplateProcessing

    ends = [(SPECIAL_TOKENS[token], token) for token in (CLS, SEP)]
    tokenizer.post_processor = TemplateProcessing("[CLS] $A [SEP]", None, ends)
    return tokenizer


def token_rows(tokenizer: "Tokenizer", texts: list[str], length: int) -> np.ndarray:
    """Return the ids of texts, padded to the longest of them.

    Parameters
    ----------
    tokenizer : tokenizers.Tokenizer
        That puts its special tokens around a text, and pads with the id 0.
    texts : list of str
    length : int
        Longer texts are cut to so many tokens.

    Returns
    -------
    ndarray of int (N, T)
    """
    check_texts(texts)
    check_positive_int("length", length)
    tokenizer.no_padding()
    tokenizer.enable_truncation(length)
    rows = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    ids = np.full((len(rows), max(map(len, rows), default=0)), PAD)
    for row, found in zip(ids, rows, strict=True):
        row[: len(found)] = found
    return ids


def cut_documents(
    tokenizer: "Tokenizer", documents: list[Document], length: int
) -> list[Document]:
    """Cut each document into passages of up to so many tokens, ends included, at spaces.

    No word is lost: what does not fit into a passage begins the next one, of the same name. The
    passages of a document have about one length.

    Parameters
    ----------
    tokenizer : tokenizers.Tokenizer
    documents : list of Document
    length : int

    Returns
    -------
    list of Document
    """
    check_positive_int("length", length)
    room = length - tokenizer.num_special_tokens_to_add(False)
    if room < 1:
        raise ValueError(f"length: expected room for a token, got {length}")
    tokenizer.no_padding()
    tokenizer.no_truncation()
    documents = as_list("documents", documents)
    passages = []
    texts = [document.text for document in documents]
    check_texts(texts)
    encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
    for (name, text), encoding in zip(documents, encodings, strict=True):
        places = encoding.offsets
        start, left = 0, ceil(len(places) / room)
        while start < len(places):
            left = max(left, ceil((len(places) - start) / room))
            end = start + ceil((len(places) - start) / left)
            between = end
            while (
                between < len(places) and places[between][0] == places[between - 1][1]
            ):
                between -= 1
            if between > start:  # otherwise one word is longer than a passage
                end = between
            passages.append(Document(name, text[places[start][0] : places[end - 1][1]]))
            start, left = end, left - 1
    return passages


def embed(
    model: SentenceEncoder,
    tokenizer: "Tokenizer",
    texts: list[str],
    length: int,
    progress: bool = False,
) -> np.ndarray:
    """Return the vectors of texts, (N, D), each of length 1.

    Texts of about one length go through the model together, so that there is little padding.
    ``progress`` shows a bar.
    """
    check_texts(texts)
    order = sorted(range(len(texts)), key=lambda k: len(texts[k]))
    vectors = []
    starts: Iterable[int] = range(0, len(order), TOGETHER)
    if progress:
        from tqdm import tqdm

        starts = tqdm(starts, "embedding", unit=f" x {TOGETHER} texts")
    for start in starts:
        part = [texts[k] for k in order[start : start + TOGETHER]]
        vectors.append(model.forward(token_rows(tokenizer, part, length))[0])
    return np.concatenate(vectors)[np.argsort(order)]


def nearest(
    vectors: np.ndarray, query: np.ndarray, top: int
) -> list[tuple[int, float]]:
    """Return the rows whose inner product with a query is largest, and it; the largest first."""
    check_whole("top", top, 1)
    scores = vectors @ query
    return [(int(k), float(scores[k])) for k in (-scores).argsort(kind="stable")[:top]]


def ranks(scores: np.ndarray, right: list[list[int]]) -> list[int]:
    """Return how many texts a reader looks at until the first right one, of equal scores all.

    Parameters
    ----------
    scores : ndarray (Q, N)
        Of every question and text.
    right : list of list of int
        The places of the right texts of each question.

    Returns
    -------
    list of int
        Q numbers from 1.
    """
    found = []
    for row, places in zip(scores, right, strict=True):
        best = row[places].max()
        others = np.delete(row, places)
        found.append(1 + int((others >= best).sum()))
    return found
