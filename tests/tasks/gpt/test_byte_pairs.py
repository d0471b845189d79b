import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_core.tasks.gpt.byte_pairs import (
    BYTES,
    TIES,
    BytePairs,
    merge_pair,
    train_byte_pairs,
)
from transformer_core.tasks.gpt.pretokens import pretokens

TEXTS = [
    "Cats chase mice. Mice are chased by cats, and they're chasing cheese!",
    "aaaa aaa aaaaa baa  \u00e9t\u00e9\n\n\u00e9tage",
] * 2
ORDER = {  # what orders equally frequent pairs, of the words and the tokens as they are
    "ids": lambda pair, words, tokens: pair,
    "first": lambda pair, words, tokens: [p for word in words for p in pairwise(word)].index(pair),
    "bytes": lambda pair, words, tokens: [[255 - byte for byte in tokens[i]] + [256] for i in pair],
}


@pytest.fixture(scope="module")
def table():
    return train_byte_pairs(TEXTS, 300)


def joined(table):
    return [(table.tokens[one] + table.tokens[other]).decode() for one, other in table.merges]


def by_counting_anew(texts, vocabulary, ties):
    """The tokens of a training that counts all pairs again before each merge."""
    tokens = [bytes([byte]) for byte in BYTES]
    words = [
        [BYTES.index(b) for b in piece.encode()] for text in texts for piece in pretokens(text)
    ]
    while len(tokens) < vocabulary:
        counts = Counter(pair for word in words for pair in pairwise(word))
        if not counts:
            return tokens
        most = max(counts.values())
        best = min(
            (pair for pair, times in counts.items() if times == most),
            key=lambda pair: ORDER[ties](pair, words, tokens),
        )
        words = [merge_pair(word, best, len(tokens)) for word in words]
        tokens.append(tokens[best[0]] + tokens[best[1]])
    return tokens


@pytest.mark.equation("eq:byte-pairs-train")
@pytest.mark.parametrize(
    "text, ties, expected",
    [
        ("ba ab cd dc", "ids", "ab ba cd dc"),
        ("ba ab cd dc", "first", "ba ab cd dc"),
        ("ba ab cd dc", "bytes", "dc cd ba ab"),
        ("dcba abcd bdac dbca", "ids", "bc ac abc ba"),
        ("dcba abcd bdac dbca", "first", "bc dc dcb dcba"),
        ("dcba abcd bdac dbca", "bytes", "bc dc dcb dcba"),
    ],
)
def test_three_rules_for_ties_by_hand(text, ties, expected):
    table = train_byte_pairs(text.split(), 261, ties=ties)
    assert joined(table) == expected.split()


def test_a_greater_token_is_not_the_beginning_of_another():
    """After ``ab``, the pairs (ab, a) and (a, a) tie; the longer token is the greater one."""
    table = train_byte_pairs(["aba", "ab", "aa"], 259, ties="bytes")
    assert joined(table) == ["ab", "aba"]


@pytest.mark.equation("eq:byte-pairs-train")
@settings(max_examples=60)
@given(
    st.lists(st.text("aab 'c", min_size=1, max_size=25), min_size=1, max_size=6),
    st.integers(1, 12),
    st.sampled_from(TIES),
)
def test_counts_that_are_kept_are_those_counted_anew(texts, merges, ties):
    expected = by_counting_anew(texts, 256 + merges, ties)
    table = train_byte_pairs(texts, len(expected), special=(), ties=ties)
    assert table.tokens == expected
    assert len(set(table.tokens)) == len(expected)


@pytest.mark.equation("eq:byte-pairs-encode")
@given(st.text("abCcthesim. \u00e9'\n") | st.text())
def test_encoding_repeats_the_training(table, text):
    expected = []
    for piece in pretokens(text):
        ids = [table.byte_ids[byte] for byte in piece.encode()]
        for rank, pair in enumerate(table.merges):
            ids = merge_pair(ids, pair, table.made[rank])
        expected += ids
    assert table.encode(text).tolist() == expected


def test_every_token_that_was_made_is_the_code_of_its_bytes(table):
    for i in table.made:
        assert table.merge(table.tokens[i]) == (i,)


def test_merges_come_in_their_order_and_not_by_length():
    """``bc`` comes before ``ab`` and ``abcd`` is never made of ``abc``: three tokens, not two."""
    tokens = [bytes([byte]) for byte in range(256)] + [b"bc", b"ab", b"cd", b"abc"]
    table = BytePairs(tokens, [(98, 99), (97, 98), (99, 100), (257, 99)], {})
    assert table.encode("abcd").tolist() == [97, 256, 100]
    assert table.encode("abd").tolist() == [257, 100]


@pytest.mark.parametrize(
    "ids, merged",
    [
        ([1, 1, 1], [9, 1]),
        ([1, 1, 1, 1, 1], [9, 9, 1]),
        ([2, 1, 1, 1, 2], [2, 9, 1, 2]),
        ([1], [1]),
        ([], []),
    ],
)
def test_a_run_is_merged_from_the_left(ids, merged):
    assert merge_pair(ids, (1, 1), 9) == merged
    tokens = [bytes([byte]) for byte in range(256)] + [b"\1\1"]
    table = BytePairs(tokens, [(1, 1)], {})
    assert table.merge(bytes(ids)) == tuple(256 if i == 9 else i for i in merged)


@pytest.mark.equation("eq:byte-pairs-decode")
@given(st.binary() | st.lists(st.sampled_from(TEXTS)).map(lambda t: " ".join(t).encode()[1:-1]))
def test_decoding_is_the_inverse_of_encoding_on_all_bytes(table, content):
    assert table.decode_bytes(table.encode(content)) == content


@given(st.text())
def test_decoding_is_the_inverse_of_encoding_on_all_texts(table, text):
    assert table.decode(table.encode(text)) == text
    assert table.encode(text.encode()).tolist() == table.encode(text).tolist()


def test_every_byte_is_a_token(table):
    content = bytes(range(256)) + b"<|endoftext|>"
    assert table.decode_bytes(table.encode(content)) == content


def test_half_a_character_waits_for_the_other_half():
    table = train_byte_pairs(["a"], 257)
    ids = table.encode("\u20ac")
    assert len(ids) == 3
    assert table.decode(ids) == "\u20ac"
    assert table.decode(ids[:2]) == "\ufffd"


@given(st.text("catshe. \n'", max_size=30), st.text("catshe. \n'", max_size=30))
def test_no_token_goes_over_the_border_of_a_pretoken(table, one, other):
    pieces = pretokens(one + other)
    separate = [i for piece in pieces for i in table.merge(piece.encode())]
    assert table.encode(one + other).tolist() == separate
    ends, at = set(), 0
    for piece in pieces:
        at += len(piece)
        ends.add(at)
    lengths = [len(table.tokens[i]) for i in table.encode(one + other)]
    assert ends <= set(np.cumsum(lengths).tolist())


def test_a_pair_over_a_border_is_left_even_if_it_has_a_merge():
    tokens = [bytes([byte]) for byte in range(256)] + [b"sa"]
    table = BytePairs(tokens, [(115, 97)], {})
    assert table.encode("sa").tolist() == [256]
    assert table.encode("'sa").tolist() == [39, 115, 97]


def test_no_merge_goes_over_the_border_of_a_pretoken():
    table = train_byte_pairs(["ab ab ab 1a 1a 1a"], 259, special=())
    assert all(len(pretokens(t.decode("latin-1"))) == 1 for t in table.tokens)


def test_special_tokens_are_found_first_and_never_cut():
    special = ["<|endoftext|>", "<|end|>", "<|end|><|end|>"]
    table = train_byte_pairs(TEXTS, 300, special)
    assert table.special == {text: i for i, text in enumerate(special)}
    assert table.vocabulary == 300
    ids = table.encode("a<|endoftext|>a<|end|><|end|><|end|>").tolist()
    assert [i for i in ids if i < 3] == [0, 2, 1]
    assert table.decode(ids) == "a<|endoftext|>a<|end|><|end|><|end|>"
    plain = train_byte_pairs(TEXTS, 300, special=())
    assert len(plain.encode("<|endoftext|>")) > 1


def test_an_empty_text_has_no_tokens(table):
    ids = table.encode("")
    assert ids.shape == (0,) and ids.dtype == np.int64
    assert table.decode(ids) == "" and table.decode([]) == ""


def test_a_long_run_takes_no_quadratic_time(table):
    """A hundredth of a second; one pass over all for each merge would take minutes."""
    text = "a" * 20_000
    assert table.decode(table.encode(text)) == text


def test_a_saved_table_reloaded_is_the_same(table, tmp_path):
    path = tmp_path / "tokenizer.json"
    table.save(path)
    again = BytePairs.load(path)
    assert (again.tokens, again.merges, again.special) == (
        table.tokens,
        table.merges,
        table.special,
    )


def test_older_files_have_merges_as_strings(table, tmp_path):
    path = tmp_path / "tokenizer.json"
    table.save(path)
    content = json.loads(path.read_text("utf-8"))
    content["model"]["merges"] = [" ".join(pair) for pair in content["model"]["merges"]]
    del content["model"]["type"], content["model"]["ignore_merges"]
    path.write_text(json.dumps(content), "utf-8")
    assert BytePairs.load(path).merges == table.merges


@pytest.mark.parametrize(
    "place, value",
    [
        (["model", "type"], "WordPiece"),
        (["model", "dropout"], 0.1),
        (["model", "byte_fallback"], True),
        (["model", "ignore_merges"], True),
        (["model", "merges"], [["a"]]),
        (["model", "merges"], [["a", "no such token"]]),
        (["model", "merges"], 3),
        (["model", "vocab"], {"\u0394": 0}),
        (["normalizer"], {"type": "Lowercase"}),
        (["pre_tokenizer"], None),
        (["pre_tokenizer", "type"], "Whitespace"),
        (["pre_tokenizer", "add_prefix_space"], True),
        (["pre_tokenizer", "use_regex"], False),
        (["truncation"], {"max_length": 8}),
        (["post_processor"], {"type": "TemplateProcessing"}),
        (["added_tokens", 0, "id"], 400),
        (["added_tokens", 0, "lstrip"], True),
        (["added_tokens"], None),
    ],
)
def test_a_file_that_asks_for_something_else_is_named(table, tmp_path, place, value):
    path = tmp_path / "tokenizer.json"
    table.save(path)
    content = json.loads(path.read_text("utf-8"))
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    path.write_text(json.dumps(content), "utf-8")
    with pytest.raises(ValueError, match="tokenizer.json: expected byte-level BPE with GPT-2's"):
        BytePairs.load(path)


def test_a_file_that_is_cut_off_is_named(table, tmp_path):
    path = tmp_path / "tokenizer.json"
    table.save(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match="tokenizer.json: expected whole JSON"):
        BytePairs.load(path)


@pytest.mark.parametrize(
    "tokens, merges, special, message",
    [
        (range(255), [], {}, "tokens: expected all 256 bytes, got none for 255"),
        ([*range(256), 0], [], {}, "tokens: expected different bytes, got b'.x00' at 256"),
        (range(256), [(97, 256)], {}, r"merges: expected ids of tokens, got \(97, 256\) at 0"),
        (range(256), [(97, 98)], {}, r"pairs that make tokens, got \(97, 98\) at 0, .* b'ab'"),
        (range(256), [], {"a": 98}, "special: expected tokens with their ids, got 'a' for 98"),
        (range(256), [], {"a": 97}, "tokens: expected all 256 bytes, got none for 97"),
    ],
)
def test_a_table_that_does_not_fit_together_is_named(tokens, merges, special, message):
    with pytest.raises(ValueError, match=message):
        BytePairs([bytes([i]) for i in tokens], merges, special)


def test_a_pair_that_is_merged_twice_is_named():
    tokens = [bytes([i]) for i in range(256)] + [b"ab"]
    with pytest.raises(ValueError, match=r"different pairs that make tokens, got \(97, 98\) at 1"):
        BytePairs(tokens, [(97, 98), (97, 98)], {})


@pytest.mark.parametrize(
    "change, message",
    [
        ({"texts": "abab"}, "texts: expected several strings, got one, 'abab'"),
        ({"texts": 3}, "texts: expected a list, got int"),
        ({"texts": [3]}, "texts: expected a string or bytes, got int"),
        ({"texts": ["a\ud800"]}, r"texts: expected characters, got the lone surrogate .* at 1"),
        ({"texts": []}, "a vocabulary of 300, got 0 different pre-tokens, which make 257 tokens"),
        ({"texts": ["ab"]}, "for a vocabulary of 300, got 1 different pre-tokens, .* 258 tokens"),
        ({"vocabulary": 256}, "vocabulary: expected at least 257, for 1 special .*, got 256"),
        ({"vocabulary": 3e2}, "vocabulary: expected a whole number of at least 1, got 300.0"),
        ({"special": "<|end|>"}, "special: expected several strings, got one, '<|end|>'"),
        ({"special": ["x", "x"]}, "special: expected different ones, got .*'x'"),
        ({"special": [""]}, "special: expected different ones, got "),
        ({"ties": "last"}, "ties: expected one of ids, first, bytes, got 'last'"),
    ],
)
def test_what_cannot_be_learnt_from_is_named(change, message):
    arguments = {"texts": TEXTS, "vocabulary": 300} | change
    with pytest.raises(ValueError, match=message):
        train_byte_pairs(**arguments)


@pytest.mark.parametrize(
    "ids, message",
    [
        ([300], "ids: expected ids from 0 to 299, got 300"),
        ([-1], "ids: expected ids from 0 to 299, got -1"),
        ([[1]], r"ids: expected shape \(T\), got \(1, 1\)"),
        ([0.5], "ids: expected whole numbers, got float64"),
    ],
)
def test_ids_that_are_none_are_named(table, ids, message):
    with pytest.raises(ValueError, match=message):
        table.decode(ids)
