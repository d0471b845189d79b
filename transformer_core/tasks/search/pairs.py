"""What is searched for, and where: the first sentence of a text, and the rest of it."""

import re
from typing import NamedTuple

from transformer_core.foundation.checks import as_list
from transformer_core.tasks.texts.documents import Document

FIRST_SENTENCE = re.compile(r"(.+?[.!?])\s+(?=\S)", re.DOTALL)
SHORTEST_QUESTION, SHORTEST_ANSWER = 4, 8  # words
LONGEST_QUESTION, LONGEST_ANSWER = 24, 48


class Pair(NamedTuple):
    name: str
    question: str
    answer: str


def pairs(documents: list[Document]) -> list[Pair]:
    """Make a question of the first sentence of each document, and an answer of the rest.

    The name of the document is left out of the question. Either is cut, to 24 and to 48 words.
    Documents that are too short, whose name begins with an underscore, or whose question has
    occurred before make no pair.

    Parameters
    ----------
    documents : list of Document

    Returns
    -------
    list of Pair
        In the order of the documents.
    """
    found: dict[str, Pair] = {}
    for name, text in as_list("documents", documents):
        sentence = FIRST_SENTENCE.match(text)
        if not sentence or name.startswith("_"):
            continue
        question = re.sub(rf"\b{re.escape(name)}\b", "", sentence[1]).split()
        answer = text[sentence.end() :].split()
        if len(question) >= SHORTEST_QUESTION and len(answer) >= SHORTEST_ANSWER:
            pair = Pair(
                name,
                " ".join(question[:LONGEST_QUESTION]),
                " ".join(answer[:LONGEST_ANSWER]),
            )
            found.setdefault(pair.question, pair)
    return list(found.values())
