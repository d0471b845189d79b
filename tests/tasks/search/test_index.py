import numpy as np
import pytest

from transformer_core.layers import LayerSpec
from transformer_core.models import BertEncoder, StackSpec
from transformer_core.tasks.search import (
    SentenceEncoder,
    cut_documents,
    embed,
    nearest,
    ranks,
    token_rows,
    with_ends,
)
from transformer_core.tasks.texts.documents import Document
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


@pytest.mark.parametrize("length", [4, 5, 6, 9, 40])
def test_passages_fit_are_of_about_one_length_and_lose_no_word(tokenizer, length):
    text = " ".join(TEXTS * 5)
    passages = cut_documents(tokenizer, [Document("a", text), Document("b", "a dog")], length)
    assert [name for name, _ in passages] == ["a"] * (len(passages) - 1) + ["b"]
    assert " ".join(passage for name, passage in passages if name == "a") == text
    ids = token_rows(tokenizer, [passage for _, passage in passages], 100)
    sizes = (ids != PAD).sum(axis=1)
    assert sizes.max() <= length and np.ptp(sizes[:-1]) <= 2


def test_a_word_longer_than_a_passage_is_cut_and_no_room_is_refused(tokenizer):
    word = "catdogcatdogcat"
    passages = cut_documents(tokenizer, [Document("a", f"a {word} dog")], 5)
    assert "".join(passage for _, passage in passages).replace(" ", "") == f"a{word}dog"
    assert cut_documents(tokenizer, [Document("a", "")], 5) == []
    with pytest.raises(ValueError, match="length: expected room for a token, got 2"):
        cut_documents(tokenizer, [], 2)


def test_a_rank_counts_all_that_score_as_much_as_the_first_right_one():
    scores = np.array([[3.0, 1, 2, 2], [1, 1, 1, 1], [0, 5, 4, 3]])
    assert ranks(scores, [[2], [0], [3, 2]]) == [3, 4, 2]
