"""Chapter 550: byte pairs, from a text cut into pre-tokens to the ids of its tokens."""

from collections.abc import Sequence

import numpy as np

from transformer_core.tasks.gpt import byte_pairs
from transformer_core.tasks.gpt.byte_pairs import BytePairs, PairCounts
from transformer_core.tasks.gpt.pretokens import pretokens
from transformer_practice.engine.exercise import Exercise, Theorem
from transformer_practice.engine.points import Point


def pretoken_lengths(text: str) -> np.ndarray:
    """Return the number of characters of each pre-token of a text (eq:pretokens)."""
    return np.array([len(piece) for piece in pretokens(text)])


def merge_pair(ids: np.ndarray, pair: tuple[int, int], made: int) -> np.ndarray:
    """Return ids with ``made`` in place of each pair, from the left (eq:byte-pairs-merge)."""
    return np.array(byte_pairs.merge_pair(ids.tolist(), pair, made))


def learn_merges(words: Sequence[np.ndarray], times: np.ndarray, merges: int) -> np.ndarray:
    """Return the pairs that are merged, in their order (eq:byte-pairs-train).

    The first merge makes the token 256, the next 257. Of equally frequent pairs the one of the
    smallest ids goes first.
    """
    tokens = [bytes([byte]) for byte in range(256)]
    counts = PairCounts([word.tolist() for word in words], times.tolist(), tokens, "ids")
    pairs = []
    for made in range(256, 256 + merges):
        pairs.append(counts.most_frequent())
        tokens.append(b"".join(tokens[i] for i in pairs[-1]))
        counts.merge(pairs[-1], made)
    return np.array(pairs)


def encode_piece(piece: np.ndarray, merges: np.ndarray) -> np.ndarray:
    """Return the ids of the bytes of a pre-token (eq:byte-pairs-encode)."""
    pairs = [(int(one), int(other)) for one, other in merges]
    return np.array(BytePairs(tokens_of(merges), pairs, {}).merge(bytes(piece.tolist())))


def tokens_of(merges):
    """Return the bytes of every token."""
    tokens = [bytes([byte]) for byte in range(256)]
    for one, other in merges:
        tokens.append(tokens[one] + tokens[other])
    return tokens


def lost_bytes(point, outputs):
    """Count the bytes in which decoded tokens differ from what they stand for."""
    tokens = tokens_of(point.arguments["merges"])
    ids = outputs["output"].astype(int)
    if not all(0 <= i < len(tokens) for i in ids):
        return len(ids)
    decoded = np.frombuffer(b"".join(tokens[i] for i in ids), np.uint8)
    piece = point.arguments["piece"]
    return float(abs(len(decoded) - len(piece)) or (decoded != piece).sum())


def codes(text):
    return np.array(list(text.encode()))


def text_points():
    texts = {
        "generic": "The cats'll chase 12 mice,\n  don't they?",
        "two blanks": "cats  chase",
        "blanks at the end": "mice   ",
        "digits and an underscore": "x_1 = 2_000",
        "contractions": "'s isn't 'SO' they're 'r",
        "a word after an apostrophe": "'start 'tis 'mine",
        "digits after letters": "gpt2 b12c 3rd",
        "numbers that are no digits": "2\u00bd \u21634",
        "a mark on a letter": "cafe\u0301s",
        "new lines": "a\n\nb\n c",
        "other scripts": "\u732b\u304c \u0661\u0662 \u00bd",
        "generic, other sizes": "One cat, two\tmice: 3!  It's so.",
    }
    return [Point(name, {"text": text}) for name, text in texts.items()]


def pair_points():
    ids = np.array([4, 1, 2, 3, 1, 2, 1, 2, 2, 5, 1])
    return [
        Point("generic", {"ids": ids, "pair": (1, 2), "made": 9}, sizes={"T": len(ids)}),
        Point("no such pair", {"ids": ids, "pair": (5, 4), "made": 9}),
        Point("the pair alone", {"ids": np.array([7, 8]), "pair": (7, 8), "made": 9}),
        Point("three in a row", {"ids": np.array([3, 3, 3]), "pair": (3, 3), "made": 9}),
        Point("runs", {"ids": np.array([3, 3, 3, 3, 1, 3, 3, 3, 3, 3]), "pair": (3, 3), "made": 9}),
        Point(
            "generic, other sizes",
            {"ids": np.array([6, 2, 6, 2, 2, 6, 6]), "pair": (6, 2), "made": 11},
            sizes={"T": 7},
        ),
    ]


def word_points():
    def point(name, text, times, merges):
        words = [codes(word) for word in text.split()]
        return Point(name, {"words": words, "times": np.array(times), "merges": merges})

    return [
        point("generic", "banana cabana ban nabob", [3, 2, 4, 1], 5),
        point("equally frequent", "ba ab cd dc", [1, 1, 1, 1], 4),
        point("ids, not bytes", "dcba abcd bdac dbca", [1, 1, 1, 1], 4),
        point("a rare word with many pairs", "abababab cd", [1, 5], 2),
        point("runs", "aaaaaaa baaa", [1, 2], 3),
        point("a run counts each of its pairs", "aaa bc", [2, 3], 2),
        point("generic, other sizes", "chased chases cheese", [2, 5, 3], 7),
    ]


def piece_points():
    def point(name, text, *merges):
        return Point(name, {"piece": codes(text), "merges": np.array(merges)})

    abc = (98, 99), (97, 98), (99, 100), (257, 99)  # bc, ab, cd, abc
    return [
        point("generic", "banana", (97, 110), (98, 256), (256, 97), (257, 258)),
        point("an early merge in the middle", "abcd", *abc),
        point("the longest token is not made", "abcabd", *abc),
        point("a late merge on the left", "abcabd", (98, 99), (97, 256), (97, 98)),
        point("a run", "aaaaaaa", (97, 97), (256, 256)),
        point("nothing to merge", "xyz", *abc),
        point("one byte", "a", *abc),
        point("bytes that are no ASCII", "\u00e9t\u00e9", (195, 169), (116, 256)),
        point("generic, other sizes", "nabanan", (98, 97), (110, 97), (256, 257)),
    ]


EXERCISES = [
    Exercise(forward=pretoken_lengths, points=text_points),
    Exercise(forward=merge_pair, points=pair_points),
    Exercise(forward=learn_merges, points=word_points),
    Exercise(
        forward=encode_piece,
        points=piece_points,
        theorems=(Theorem("the bytes of the tokens are those of the piece", lost_bytes),),
    ),
]
