"""Chapter 550: two merges are learnt from two words, and a third word is encoded with them."""

from collections import Counter
from fractions import Fraction
from itertools import pairwise

BYTES = 3  # the tokens 0, 1 and 2 are single bytes


def byte_pairs(rng):
    """Draw two words with their frequencies, a word to encode, and the bits of a token."""
    w, v = ([rng.randrange(BYTES) for _ in range(length)] for length in (6, 5))
    times = rng.sample(range(1, 6), 2)
    bits = rng.randint(3, 9)
    words = [w, v]
    counts, once = counted(words, times), counted(words, [1, 1])
    first = most_frequent(counts)
    merged = [replaced(word, first, BYTES) for word in words]
    second = most_frequent(counted(merged, times))
    del counts[first]
    apart = [byte for token in second for byte in (first if token == BYTES else [token])]
    parts = [list(first), apart, [rng.randrange(BYTES)]]
    rng.shuffle(parts)
    x = sum(parts, [])
    half = replaced(x, first, BYTES)
    code = replaced(half, second, BYTES + 1)
    n, m = times
    return {"w": w, "v": v, "n": times, "x": x, "b": bits}, [
        [first, most_frequent(once)],
        [counted(words, times)[first], once[first]],
        [n * len(merged[0]) + m * len(merged[1]), sum(map(len, merged))],
        [second, most_frequent(counts)],
        [len(code), len(half), len(x)],
        [Fraction(bits * len(code), len(x)), bits],
    ]


def counted(words, times):
    """Count each pair of neighbours, as often as its word occurs."""
    counts = Counter()
    for word, n in zip(words, times, strict=True):
        for pair in pairwise(word):
            counts[pair] += n
    return counts


def most_frequent(counts):
    """Return the most frequent pair; of several, the one of the smallest ids."""
    return min(counts, key=lambda pair: (-counts[pair], pair))


def replaced(word, pair, made):
    """Put a token in place of each pair, from the left."""
    new = []
    for token in word:
        if new and (new[-1], token) == pair:
            new[-1] = made
        else:
            new.append(token)
    return new
