"""Texts as vectors, and the nearest of them to a question."""

from typing import TYPE_CHECKING

import numpy as np

from transformer_core.foundation.checks import check_positive_int, check_whole
from transformer_core.tasks.search.sentence_encoder import SentenceEncoder
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


def embed(
    model: SentenceEncoder, tokenizer: "Tokenizer", texts: list[str], length: int
) -> np.ndarray:
    """Return the vectors of texts, (N, D), each of length 1.

    Texts of about one length go through the model together, so that there is little padding.
    """
    check_texts(texts)
    order = sorted(range(len(texts)), key=lambda k: len(texts[k]))
    vectors = []
    for start in range(0, len(order), TOGETHER):
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
