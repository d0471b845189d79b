from math import log

import numpy as np
import pytest

from transformer_core.tasks.search import Bm25
from transformer_core.tasks.search.bm25 import words_of

TEXTS = ["the cat sees the dog", "a dog", "A cat, and the cat", "nothing"]


def test_words_are_runs_of_letters_and_digits_in_lower_case():
    assert words_of("np.arange_2(3) Größe, don't") == "np arange 2 3 größe don t".split()


def test_scores_by_hand():
    found = Bm25(TEXTS, k1=2.0, b=0.5).scores("Cat dog dog unknown")
    rarity = log(1 + 2.5 / 2.5)  # of either: in two of four texts
    mean = 13 / 4

    def part(times, length):
        return rarity * times / (times + 2 * (0.5 + 0.5 * length / mean))

    expected = [3 * part(1, 5), 2 * part(1, 2), part(2, 5), 0]
    assert np.allclose(found, expected, rtol=1e-14)


def test_without_b_the_length_does_not_count_and_more_of_a_word_saturates():
    one, two, many, long = Bm25(["x", "x x", "x " * 10_000, "x " + "y " * 99], b=0).scores("x")
    assert one < two < many < log(1 + 0.5 / 4.5) and one == long


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"texts": ["", "!"]}, "texts: expected some words, got none"),
        ({"texts": "cat"}, "texts: expected a list of strings, got 'cat'"),
        ({"texts": TEXTS, "k1": 0}, "k1: expected a positive number, got 0"),
        ({"texts": TEXTS, "b": 1.5}, "b: expected a number from 0 to 1, got 1.5"),
    ],
)
def test_what_is_malformed_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Bm25(**arguments)
    with pytest.raises(ValueError, match="texts: expected a list of strings"):
        Bm25(TEXTS).scores(3)
