"""BM25 against the package ``bm25s``, on texts of words that are drawn."""

import numpy as np
import pytest

from transformer_core.tasks.search import Bm25

bm25s = pytest.importorskip("bm25s")


@pytest.mark.parametrize("k1, b", [(1.5, 0.75), (0.9, 0.4), (2.0, 0.0)])
def test_scores_are_those_of_bm25s(rng, k1, b):
    words = [f"w{k}" for k in range(60)]
    often = 1 / np.arange(1, 61)
    texts = [
        " ".join(rng.choice(words, size, p=often / often.sum()))
        for size in rng.integers(2, 80, 200)
    ]
    theirs = bm25s.BM25(method="lucene", k1=k1, b=b)
    theirs.index([text.split() for text in texts], show_progress=False)
    ours = Bm25(texts, k1, b)
    for _ in range(20):
        query = [str(word) for word in rng.choice(words, 5)]
        expected = theirs.get_scores(query)
        assert np.allclose(ours.scores(" ".join(query)), expected, rtol=1e-5, atol=1e-6)
