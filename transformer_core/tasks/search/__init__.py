"""Search by meaning: questions and texts as vectors of one space, and by words."""

from transformer_core.tasks.search.bm25 import Bm25
from transformer_core.tasks.search.index import (
    cut_documents,
    embed,
    nearest,
    ranks,
    token_rows,
    with_ends,
)
from transformer_core.tasks.search.pairs import pairs
from transformer_core.tasks.search.recipe import Search, load
from transformer_core.tasks.search.sentence_encoder import SentenceEncoder

__all__ = [
    "Bm25",
    "Search",
    "SentenceEncoder",
    "cut_documents",
    "embed",
    "load",
    "nearest",
    "pairs",
    "ranks",
    "token_rows",
    "with_ends",
]
