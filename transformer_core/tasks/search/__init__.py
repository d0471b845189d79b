"""Search by meaning: questions and texts as vectors of one space."""

from transformer_core.tasks.search.index import embed, nearest, token_rows, with_ends
from transformer_core.tasks.search.pairs import pairs
from transformer_core.tasks.search.sentence_encoder import SentenceEncoder

__all__ = ["SentenceEncoder", "embed", "nearest", "pairs", "token_rows", "with_ends"]
