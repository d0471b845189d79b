"""Search by words: what a text's rare words say, weighted by how often it has them."""

import re
from collections import Counter

import numpy as np

from transformer_core.foundation.checks import check_positive, check_real
from transformer_core.tasks.texts.wordpiece import check_texts


def words_of(text: str) -> list[str]:
    """Return the runs of letters and digits of a text, in lower case."""
    return re.findall(r"[^\W_]+", text.lower())


class Bm25:
    r"""BM25 with an inverse document frequency that is never negative.

    A text of length :math:`l` that has a word :math:`f` times scores

    .. math:: \ln\Bigl(1 + \frac{N - n + 1/2}{n + 1/2}\Bigr)
        \frac{f}{f + k_1 (1 - b + b\, l / \bar l)}

    for each time that the query has the word, where :math:`n` of the :math:`N` texts have it and
    :math:`\bar l` is their mean length. That is what Lucene computes.

    Parameters
    ----------
    texts : list of str
    k1, b : float
        k1 is positive, b from 0, where the length does not count, to 1.

    Raises
    ------
    ValueError
        If no text has a word.

    Source: Robertson & Zaragoza 2009.
    """

    def __init__(self, texts: list[str], k1: float = 1.5, b: float = 0.75):
        check_texts(texts)
        check_positive("k1", k1)
        check_real("b", b)
        if not 0 <= b <= 1:
            raise ValueError(f"b: expected a number from 0 to 1, got {b}")
        self.size = len(texts)
        counts = [Counter(words_of(text)) for text in texts]
        lengths = np.array([found.total() for found in counts], np.float64)
        if not lengths.any():
            raise ValueError("texts: expected some words, got none")
        places: dict[str, list[int]] = {}
        for k, found in enumerate(counts):
            for word in found:
                places.setdefault(word, []).append(k)
        saturation = k1 * (1 - b + b * lengths / lengths.mean())
        # Of each word: which texts have it, and what each of them scores for it.
        self.postings = {}
        for word, having in places.items():
            n = len(having)
            times = np.array([counts[k][word] for k in having], np.float64)
            rarity = np.log1p((self.size - n + 0.5) / (n + 0.5))
            score = rarity * times / (times + saturation[having])
            self.postings[word] = np.array(having), score

    def scores(self, query: str) -> np.ndarray:
        """Return the score of every text, (N,), for a query."""
        check_texts([query])
        total = np.zeros(self.size)
        for word in words_of(query):
            if word in self.postings:
                having, score = self.postings[word]
                total[having] += score
        return total
