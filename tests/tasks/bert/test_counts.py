import numpy as np
import pytest

from transformer_core.tasks.bert.counts import Trigrams, entropy, frequencies
from transformer_core.tasks.bert.masking import mask, pack
from transformer_core.tasks.texts.wordpiece import CLS, MASK, SEP

A, B, C, D, V = 5, 6, 7, 8, 9
BLOCKS = np.array([[CLS, A, B, C, A, B, C, SEP], [CLS, A, D, C, A, B, A, SEP]])


def test_frequencies_leave_special_tokens_out():
    assert np.allclose(frequencies(BLOCKS, V) * 12, [0, 0, 0, 0, 0, 5, 3, 3, 1])


def test_entropy_by_hand():
    shares = np.array([0, 0.5, 0.25, 0.25])
    assert np.isclose(entropy(shares), 1.5 * np.log(2))
    assert np.isclose(entropy(np.full(V, 1 / V)), np.log(V))


@pytest.mark.parametrize(
    "left, right, expected",
    [
        (A, C, B),  # twice B, once D
        (C, B, A),  # between
        (D, D, C),  # never together; what follows D
        (D, MASK, C),  # one hidden: the other tells
        (MASK, D, A),  # what precedes D
        (MASK, MASK, A),  # the most frequent token
        (CLS, SEP, A),  # what follows [CLS]
    ],
)
def test_guesses_by_hand(left, right, expected):
    inputs = np.array([[CLS, left, MASK, right, SEP]])
    masked = np.array([[False, False, True, False, False]])
    assert Trigrams(BLOCKS, V).predict(inputs, masked).tolist() == [expected]


@pytest.mark.parametrize(
    "column, inputs, expected",
    [
        (0, [MASK, C, A, D], B),  # what precedes C
        (3, [C, B, D, MASK], C),  # what follows D
        (0, [MASK, MASK, A, B], A),  # the most frequent token
    ],
)
def test_beyond_the_ends_of_a_block_there_is_no_neighbour(column, inputs, expected):
    masked = np.arange(4) == column
    guess = Trigrams(BLOCKS, V).predict(np.array([inputs]), masked[np.newaxis])
    assert guess.tolist() == [expected]


def test_hidden_neighbours_are_not_counted():
    trigrams = Trigrams(np.array([[A, B, MASK, D, C, A, C, A]]), V)
    inputs, masked = np.array([[A, MASK, MASK, D]]), np.arange(4) == 1
    assert trigrams.predict(inputs, masked[np.newaxis]).tolist() == [C]
    # [MASK] stood around B and D, and tells nothing of what stands between two of them.
    alone, between = np.array([[MASK, MASK, MASK]]), np.array([[False, True, False]])
    assert trigrams.predict(alone, between).tolist() == [trigrams.top]


@pytest.mark.parametrize("blocks", [[[A, B]], [[CLS, SEP, A]], [[A]]])
def test_blocks_without_a_token_between_two_leave_the_most_frequent(blocks):
    inputs, masked = np.array([[CLS, A, SEP]]), np.array([[False, True, False]])
    assert Trigrams(np.array(blocks), V).predict(inputs, masked).tolist() == [A]


def test_guesses_come_in_the_order_of_the_masked_tokens(rng):
    ids = pack([rng.integers(5, 40, 1000).tolist()], 12)
    inputs, masked = mask(ids, 40, rng)
    trigrams = Trigrams(ids, 40)
    together = trigrams.predict(inputs, masked)
    alone = []
    for row, column in np.argwhere(masked):
        one = np.zeros_like(masked)
        one[row, column] = True
        alone += trigrams.predict(inputs, one).tolist()
    assert together.tolist() == alone


def test_counting_knows_its_own_text(rng):
    """Where both neighbours are seen and determine the token, it is found."""
    ids = pack([rng.permutation(2000).tolist()], 12)[:, 1:-1] + 5
    masked = np.zeros(ids.shape, bool)
    masked[:, 3] = True
    inputs = np.where(masked, MASK, ids)
    assert np.array_equal(Trigrams(ids, 2005).predict(inputs, masked), ids[masked])


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: frequencies(BLOCKS, 8), "blocks: expected ids from 0 to 7, got 8"),
        (lambda: frequencies(BLOCKS[:, :1], V), "expected tokens, got only special"),
        (lambda: Trigrams(BLOCKS, 8), "blocks: expected ids from 0 to 7, got 8"),
        (
            lambda: Trigrams(BLOCKS, V).predict(BLOCKS + 1, BLOCKS > 4),
            "inputs: expected ids from 0 to 8, got 9",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
