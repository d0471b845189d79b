import numpy as np
import pytest

from transformer_core.layers import LayerSpec
from transformer_core.models import BertEncoder, StackSpec
from transformer_core.tasks.search import SentenceEncoder, embed, nearest, token_rows, with_ends
from transformer_core.tasks.texts.wordpiece import CLS, PAD, SEP, train_wordpiece

TEXTS = ["the cat sees the dog", "a dog", "a cat and the cat sees a dog and a dog", "the dog sees"]


@pytest.fixture(scope="module")
def tokenizer():
    return with_ends(train_wordpiece(TEXTS, 34))


def test_rows_of_tokens_have_ends_and_padding_and_are_cut(tokenizer):
    ids = token_rows(tokenizer, TEXTS, 9)
    assert ids.shape == (4, 9)
    assert (ids[:, 0] == CLS).all() and ((ids == SEP).sum(axis=1) == 1).all()
    assert ids[2, -1] == SEP and ids[1, -1] == PAD
    for row in ids:
        after = np.flatnonzero(row == SEP)[0] + 1
        assert not (row[:after] == PAD).any() and (row[after:] == PAD).all()


def test_texts_are_embedded_in_their_order_whatever_stands_beside_them(tokenizer, rng):
    spec = LayerSpec(6, 2, 7, "post", dtype=np.float64)
    model = SentenceEncoder(BertEncoder(spec, StackSpec(34, 12, 1), rng))
    vectors = embed(model, tokenizer, TEXTS * 20, 12)
    assert vectors.shape == (80, 6)
    for text, vector in zip(TEXTS, vectors[-4:], strict=True):
        alone, _ = model.forward(token_rows(tokenizer, [text], 12))
        assert np.allclose(alone[0], vector, atol=1e-12)


def test_the_nearest_come_first_and_of_equals_the_earlier():
    vectors = np.array([[0.0, 1], [1, 0], [0.6, 0.8], [1, 0]])
    assert nearest(vectors, np.array([1.0, 0]), 3) == [(1, 1.0), (3, 1.0), (2, 0.6)]
    with pytest.raises(ValueError, match="top: expected a whole number of at least 1, got 0"):
        nearest(vectors, vectors[0], 0)
