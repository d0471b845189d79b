"""Byte-pair encoding: the most frequent pair of neighbours becomes one token, again and again."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from transformer_core.foundation.checks import (
    as_list,
    check_choice,
    check_ids,
    check_kind,
    check_positive_int,
    check_shape,
)
from transformer_core.foundation.files import read_json, write_atomically
from transformer_core.tasks.gpt.pretokens import pretokens

Pair = tuple[int, int]
TIES = ("ids", "first", "bytes")
END_OF_TEXT = "<|endoftext|>"

# A tokenizer's file shows each byte as one character that can be seen: printable Latin ones are
# themselves, the others the characters from 256 on. Byte tokens are numbered in this order.
VISIBLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTES = [*VISIBLE, *(byte for byte in range(256) if byte not in VISIBLE)]
SHOWN = [chr(byte) for byte in VISIBLE] + [
    chr(256 + k) for k in range(256 - len(VISIBLE))
]
CHARACTERS = dict(zip(BYTES, SHOWN, strict=True))
BYTE_OF = dict(zip(SHOWN, BYTES, strict=True))

# What such a file says of the model and of special tokens; nothing else can be done here.
SETTINGS: dict[str, Any] = {
    "dropout": None,
    "unk_token": None,
    "continuing_subword_prefix": None,
    "end_of_word_suffix": None,
    "fuse_unk": False,
    "byte_fallback": False,
    "ignore_merges": False,
}
ADDED = ("single_word", "lstrip", "rstrip")


class BytePairs:
    """A table of merges, and the tokens that they make of texts.

    Parameters
    ----------
    tokens : sequence of bytes
        By their ids. Every single byte is one of them.
    merges : sequence of (int, int)
        The ids of the two tokens that each joins, in the order in which encoding prefers them.
        Both, and what they make, are among the tokens.
    special : dict of str to int
        Tokens that no merge makes and none goes into, by their text.

    Attributes
    ----------
    vocabulary : int
        V, the number of tokens, special ones included.
    """

    def __init__(
        self, tokens: Sequence[bytes], merges: Sequence[Pair], special: dict[str, int]
    ):
        if not isinstance(special, dict):
            raise ValueError(f"special: expected a dict, got {type(special).__name__}")
        self.tokens = as_list("tokens", tokens)
        self.merges = [
            tuple(as_list("merges", pair)) for pair in as_list("merges", merges)
        ]
        self.special = dict(special)
        self.vocabulary = len(self.tokens)
        for text, i in self.special.items():
            if i not in range(self.vocabulary) or self.tokens[i] != str(text).encode():
                raise ValueError(
                    f"special: expected tokens with their ids, got {text!r} for {i}"
                )
        id_of: dict[bytes, int] = {}
        for i, token in enumerate(self.tokens):
            if not isinstance(token, bytes) or id_of.setdefault(token, i) != i:
                raise ValueError(
                    f"tokens: expected different bytes, got {token!r} at {i}"
                )
        for text in self.special:
            del id_of[text.encode()]
        for byte in range(256):
            if bytes([byte]) not in id_of:
                raise ValueError(f"tokens: expected all 256 bytes, got none for {byte}")
        self.byte_ids = [id_of[bytes([byte])] for byte in range(256)]
        self.ranks: dict[Pair, int] = {}
        self.made: list[int] = []
        for rank, pair in enumerate(self.merges):
            known = [i in range(self.vocabulary) for i in pair]
            if known != [True, True]:
                raise ValueError(
                    f"merges: expected ids of tokens, got {pair} at {rank}"
                )
            joined = b"".join(self.tokens[i] for i in pair)
            if joined not in id_of or pair in self.ranks:
                raise ValueError(
                    f"merges: expected different pairs that make tokens, got {pair} at {rank}, "
                    f"which makes {joined!r}"
                )
            self.ranks[pair] = rank
            self.made.append(id_of[joined])
        longest_first = sorted(self.special, key=len, reverse=True)
        self.special_pattern = re.compile(
            f"({'|'.join(map(re.escape, longest_first))})"
        )
        self.encode_piece = lru_cache(2**16)(self.merge)

    def encode(self, text: str | bytes) -> np.ndarray:
        """Return the ids of the tokens of a text.

        Special tokens are found first. What lies between them is cut into pre-tokens, and in each
        the merge that comes first in the table is made, leftmost first, as long as there is one
        (eq:byte-pairs-encode).

        Parameters
        ----------
        text : str or bytes
            Bytes need not be UTF-8; a byte that is none counts as a character of its own, neither
            letter nor number.

        Returns
        -------
        ndarray of int, (T,)
        """
        parts = [as_text("text", text)]
        if self.special:
            parts = self.special_pattern.split(parts[0])
        ids: list[int] = []
        for place, part in enumerate(parts):
            if place % 2:
                ids.append(self.special[part])
                continue
            for piece in pretokens(part):
                ids.extend(self.encode_piece(to_bytes(piece)))
        return np.array(ids, dtype=np.int64)

    def merge(self, piece: bytes) -> tuple[int, ...]:
        """Return the ids of one pre-token, in n log n steps for n bytes."""
        ids = [self.byte_ids[byte] for byte in piece]
        after = [*range(1, len(ids)), -1]
        before = list(range(-1, len(ids) - 1))
        heap = [
            (self.ranks[pair], place)
            for place, pair in enumerate(pairwise(ids))
            if pair in self.ranks
        ]
        heapify(heap)
        while heap:
            rank, left = heappop(heap)
            right = after[left]
            if right < 0 or (ids[left], ids[right]) != self.merges[rank]:
                continue  # another merge has taken one of the two
            ids[left], ids[right] = self.made[rank], -1
            follower = after[left] = after[right]
            if follower >= 0:
                before[follower] = left
            for one, other in (before[left], left), (left, follower):
                if one >= 0 and other >= 0 and (ids[one], ids[other]) in self.ranks:
                    heappush(heap, (self.ranks[ids[one], ids[other]], one))
        return tuple(i for i in ids if i >= 0)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Return the text of tokens; bytes that are no UTF-8 become U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", "replace")

    def decode_bytes(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """Return the bytes of tokens, one after the other (eq:byte-pairs-decode)."""
        ids = np.asarray(ids)
        if ids.size:
            check_shape("ids", ids, "T")
            check_ids("ids", ids, self.vocabulary)
        return b"".join(self.tokens[i] for i in ids)

    def save(self, path: str | Path) -> None:
        """Write the table as a file of the library ``tokenizers``."""
        write_atomically(as_path(path), self.to_file())

    def to_file(self) -> bytes:
        """Return what :meth:`save` writes."""
        special = set(self.special.values())
        shown = [
            token.decode()
            if i in special
            else "".join(CHARACTERS[byte] for byte in token)
            for i, token in enumerate(self.tokens)
        ]
        added = [
            {"id": i, "content": text, "normalized": False, "special": True}
            | dict.fromkeys(ADDED, False)
            for text, i in self.special.items()
        ]
        level = {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        }
        model = SETTINGS | {
            "type": "BPE",
            "vocab": {text: i for i, text in enumerate(shown)},
            "merges": [[shown[one], shown[other]] for one, other in self.merges],
        }
        unused = "truncation", "padding", "normalizer", "post_processor"
        content = dict.fromkeys(unused)
        content |= {"version": "1.0", "added_tokens": added, "model": model}
        content |= {"pre_tokenizer": level, "decoder": level}
        return json.dumps(content, ensure_ascii=False, indent=1).encode()

    @classmethod
    def load(cls, path: str | Path) -> "BytePairs":
        """Read a table that :meth:`save` or the library ``tokenizers`` wrote.

        A merge is a list of two tokens there, or one string with a blank between them, in older
        files.

        Raises
        ------
        ValueError
            If the file is not whole, or asks for something that is not done here, such as
            another pre-tokeniser, a normaliser or another kind of model.
        """
        file = as_path(path)
        try:
            content = file.read_bytes()
        except (OSError, ValueError) as error:
            raise ValueError(f"{path}: expected a tokenizer, got: {error}") from None
        return cls.of_file(path, content)

    @classmethod
    def of_file(cls, path: str | Path, content: bytes) -> "BytePairs":
        """Read the content of a file as :meth:`load` does; the path is for the messages."""
        table = read_json(as_path(path), check_kind("content", content, bytes))
        try:
            return cls(*read_table(table))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path}: expected byte-level BPE with GPT-2's pre-tokeniser, got: {error!r}"
            ) from None


def train_byte_pairs(
    texts: Iterable[str],
    vocabulary: int,
    special: Sequence[str] = (END_OF_TEXT,),
    ties: str = "ids",
) -> BytePairs:
    """Learn merges from texts, until there are as many tokens as asked for.

    The special tokens have the first ids, the 256 bytes follow. Each step joins the pair of
    neighbours that occurs most often within pre-tokens, everywhere (eq:byte-pairs-train).

    Parameters
    ----------
    texts : iterable of str
    vocabulary : int
        V, bytes and special tokens included.
    special : sequence of str
    ties : {"ids", "first", "bytes"}
        Which of several most frequent pairs it is: that of the smallest ids, as in the library
        ``tokenizers``; the one that is met first; or that of the greatest bytes.

    Raises
    ------
    ValueError
        If the texts have too few different pairs for a vocabulary of this size.

    Source: Gage 1994; Sennrich et al. 2016.
    """
    check_positive_int("vocabulary", vocabulary)
    check_choice("ties", ties, TIES)
    texts, special = as_texts("texts", texts), as_texts("special", special)
    if len(set(special)) < len(special) or "" in special:
        raise ValueError(f"special: expected different ones, got {special}")
    tokens = [text.encode() for text in special] + [bytes([byte]) for byte in BYTES]
    if vocabulary < len(tokens):
        raise ValueError(
            f"vocabulary: expected at least {len(tokens)}, for {len(special)} special tokens and "
            f"256 bytes, got {vocabulary}"
        )
    words = Counter(piece for text in texts for piece in pretokens(text))
    id_of = {byte: len(special) + place for place, byte in enumerate(BYTES)}
    words_as_ids = [[id_of[byte] for byte in to_bytes(word)] for word in words]
    counts = PairCounts(words_as_ids, list(words.values()), tokens, ties)
    merges: list[Pair] = []
    while len(tokens) < vocabulary:
        pair = counts.most_frequent()
        if pair is None:
            raise ValueError(
                f"texts: expected enough of them for a vocabulary of {vocabulary}, got "
                f"{len(words)} different pre-tokens, which make {len(tokens)} tokens"
            )
        merges.append(pair)
        tokens.append(tokens[pair[0]] + tokens[pair[1]])
        counts.merge(pair, len(tokens) - 1)
    return BytePairs(tokens, merges, {text: i for i, text in enumerate(special)})


class PairCounts:
    """How often each pair of neighbours occurs in words, kept up to date by every merge.

    Parameters
    ----------
    words : list of list of int
        The ids of each word.
    times : list of int
        How often each word occurs.
    tokens : list of bytes
        By their ids; it grows with the merges.
    ties : str
        Which of several most frequent pairs goes first.
    """

    def __init__(
        self, words: list[list[int]], times: list[int], tokens: list[bytes], ties: str
    ):
        self.words, self.times, self.tokens = words, times, tokens
        self.order = {"ids": tuple, "first": self.first, "bytes": self.greatest}[ties]
        self.counts: Counter[Pair] = Counter()
        self.places: defaultdict[Pair, set[int]] = defaultdict(set)
        for place, word in enumerate(words):
            for pair in pairwise(word):
                self.counts[pair] += times[place]
                self.places[pair].add(place)
        self.heap = [self.entry(pair) for pair in self.counts]
        heapify(self.heap)

    def entry(self, pair):
        return -self.counts[pair], self.order(pair), pair

    def first(self, pair: Pair) -> Pair:
        """Return the word where a pair is met first, and its place there."""
        place = min(self.places[pair])
        return place, list(pairwise(self.words[place])).index(pair)

    def greatest(self, pair: Pair) -> tuple:
        """Return what orders pairs by their bytes, the greatest first."""
        return tuple((*(255 - byte for byte in self.tokens[i]), 256) for i in pair)

    def most_frequent(self) -> Pair | None:
        """Return the most frequent pair, or None if there is none.

        Counts only fall, and the first place only moves on. So an entry of the heap that is out of
        date stands too far in front: it is found there, and put back where it belongs.
        """
        while self.heap:
            entry = heappop(self.heap)
            pair = entry[-1]
            if self.counts[pair] <= 0:
                continue
            current = self.entry(pair)
            if current == entry:
                return pair
            heappush(self.heap, current)
        return None

    def merge(self, pair: Pair, made: int) -> None:
        """Join a pair in all words that have it, and count what changes."""
        changed = set()
        for place in self.places.pop(pair):
            old, times = self.words[place], self.times[place]
            new = self.words[place] = merge_pair(old, pair, made)
            for each in pairwise(old):
                self.counts[each] -= times
            for each in pairwise(new):
                self.counts[each] += times
            before, after = set(pairwise(old)), set(pairwise(new))
            for each in before - after - {pair}:
                self.places[each].discard(place)
            for each in after - before:
                self.places[each].add(place)
            changed |= after - before
        for each in changed:
            heappush(self.heap, self.entry(each))


def merge_pair(ids: Sequence[int], pair: Pair, made: int) -> list[int]:
    """Return ids with one in place of each occurrence of a pair (eq:byte-pairs-merge).

    Of three equal tokens in a row the first two are joined, and the third is left.
    """
    merged: list[int] = []
    place = 0
    while place < len(ids):
        if tuple(ids[place : place + 2]) == pair:
            merged.append(made)
            place += 2
        else:
            merged.append(ids[place])
            place += 1
    return merged


def as_path(path: str | Path) -> Path:
    if not isinstance(path, (str, Path)) or not str(path):
        raise ValueError(f"path: expected that of a tokenizer, got {path!r}")
    return Path(path)


def as_texts(name, texts):
    """Return texts in a list; one string alone is none."""
    if isinstance(texts, (str, bytes)):
        raise ValueError(f"{name}: expected several strings, got one, {texts!r:.60}")
    return [as_text(name, text) for text in as_list(name, texts)]


def as_text(name, text):
    """Return a text; a byte that is no UTF-8 comes as a lone surrogate, as in names of files."""
    if isinstance(text, bytes):
        return text.decode("utf-8", "surrogateescape")
    if not isinstance(text, str):
        raise ValueError(
            f"{name}: expected a string or bytes, got {type(text).__name__}"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name}: expected characters, got the lone surrogate {text[error.start]!r} at "
            f"{error.start}"
        ) from None
    return text


def to_bytes(text):
    """Return the bytes of what :func:`as_text` has returned, or of a part of it."""
    return text.encode("utf-8", "surrogateescape")


def read_table(content):
    """Return tokens, merges and special tokens of what a file of ``tokenizers`` holds."""
    model, level, added = (
        content[name] for name in ("model", "pre_tokenizer", "added_tokens")
    )
    processor = content.get("post_processor") or level
    others = "normalizer", "truncation", "padding"
    asked = {name: model.get(name) for name in SETTINGS}
    asked |= {name: content.get(name) for name in others}
    asked |= {name: token.get(name) for token in added for name in ADDED}
    asked["add_prefix_space"] = level["add_prefix_space"]
    asked["no use_regex"] = not level.get("use_regex", True)
    asked["model"] = model.get("type", "BPE") != "BPE"
    asked["pre_tokenizer"] = level["type"] != "ByteLevel"
    asked["post_processor"] = processor["type"] != "ByteLevel"
    if any(asked.values()):
        raise ValueError(f"other settings: {[name for name in asked if asked[name]]}")
    special = {token["content"]: token["id"] for token in added}
    ids = model["vocab"] | special
    by_id = sorted(ids, key=ids.__getitem__)
    if any(ids[text] != i for i, text in enumerate(by_id)):
        raise ValueError("ids that are not 0, 1, 2 and so on")
    tokens = [
        text.encode() if text in special else bytes(BYTE_OF[c] for c in text)
        for text in by_id
    ]
    merges = model["merges"]
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in merges]
    return tokens, [(ids[one], ids[other]) for one, other in pairs], special
