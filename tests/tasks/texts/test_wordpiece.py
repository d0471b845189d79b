import os
import subprocess
import sys

import pytest
from helpers.texts import ROOT

from transformer_core.tasks.texts.wordpiece import (
    CLS,
    MASK,
    PAD,
    SEP,
    SPECIAL_TOKENS,
    UNK,
    load_wordpiece,
    token_ids,
    train_wordpiece,
)

TEXTS = [
    "Cats chase mice. Mice are chased by cats!",
    "A cat chases a mouse; the mouse is chasing cheese.",
    "Chasing, unchased, catlike, mouselike: the caf\u00e9 of cats.",
] * 3


@pytest.fixture(scope="module")
def tokenizer():
    return train_wordpiece(TEXTS, 80)


def test_the_vocabulary_has_the_size_asked_for(tokenizer):
    assert tokenizer.get_vocab_size() == 80
    assert sorted(tokenizer.get_vocab().values()) == list(range(80))


def test_special_tokens_have_the_ids_of_their_names(tokenizer):
    assert SPECIAL_TOKENS == ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    for id_, token in zip((PAD, UNK, CLS, SEP, MASK), SPECIAL_TOKENS, strict=True):
        assert tokenizer.token_to_id(token) == id_
    assert token_ids(tokenizer, ["a [MASK] chases"])[0][1] == MASK


def test_words_are_cut_into_known_pieces_and_put_together_again(tokenizer):
    text = "the catlike mouse chases the unchased caf\u00e9 mice!"
    (ids,) = token_ids(tokenizer, [text])
    pieces = [tokenizer.id_to_token(i) for i in ids]
    assert UNK not in ids
    assert any(piece.startswith("##") for piece in pieces)
    words = "".join(
        piece.removeprefix("##") if piece.startswith("##") else f" {piece}" for piece in pieces
    )
    assert words == " the catlike mouse chases the unchased cafe mice !"
    assert tokenizer.decode(ids) == "the catlike mouse chases the unchased cafe mice!"


def test_case_and_accents_do_not_count(tokenizer):
    one, other = token_ids(tokenizer, ["CATS of the CAF\u00c9", "cats of the cafe"])
    assert one == other


def test_a_character_never_seen_makes_its_word_unknown(tokenizer):
    assert token_ids(tokenizer, ["cats \u03c0cats"])[0][-1] == UNK


def test_a_saved_tokenizer_reloaded_is_the_same(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    reloaded = load_wordpiece(path)
    assert reloaded.to_str() == tokenizer.to_str()
    assert token_ids(reloaded, TEXTS) == token_ids(tokenizer, TEXTS)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_training_gives_the_same_in_every_process(tokenizer, threads):
    """The library hashes with other seeds in every process."""
    code = (
        "from transformer_core.tasks.texts.wordpiece import train_wordpiece\n"
        f"print(train_wordpiece({TEXTS!r}, 80).to_str())"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": threads},
    )
    assert result.stdout == tokenizer.to_str() + "\n"


@pytest.mark.parametrize(
    "texts, vocabulary, message",
    [
        (TEXTS, 5000, r"for a vocabulary of 5000, got 24 different words, .* \d+ p"),
        (TEXTS, 10, r"for a vocabulary of 10, got 24 different words"),
        ([], 100, "got 0 different words, which make 5 pieces"),
    ],
)
def test_texts_that_do_not_fill_a_vocabulary_are_an_error(texts, vocabulary, message):
    with pytest.raises(ValueError, match=message):
        train_wordpiece(texts, vocabulary)


def test_a_file_that_is_not_a_tokenizer_is_named(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.json"
    with pytest.raises(ValueError, match="tokenizer.json: expected a tokenizer, got"):
        load_wordpiece(path)
    path.write_text(tokenizer.to_str()[:-20])
    with pytest.raises(ValueError, match="tokenizer.json: expected a tokenizer, got"):
        load_wordpiece(path)
    path.write_text(tokenizer.to_str().replace("[MASK]", "[HIDE]"))
    with pytest.raises(ValueError, match=r"expected the first tokens .*\[HIDE\]"):
        load_wordpiece(path)
