import numpy as np

from book.sentence import EMBEDDING, KEY, QUERY, TOKENS, VALUE
from transformer_core.ops import attention, attention_backward, softmax


def test_there_is_a_row_for_each_token():
    assert len(TOKENS) == len(EMBEDDING) == len(QUERY) == len(KEY) == len(VALUE) == 3
    assert EMBEDDING.shape == QUERY.shape == KEY.shape == (3, 4)
    assert VALUE.shape == (3, 2)


def test_means_and_standard_deviations_are_whole_numbers():
    assert np.array_equal(EMBEDDING.mean(axis=1), [1, 1, -1])
    assert np.array_equal(EMBEDDING.std(axis=1), [3, 1, 3])


def test_scores_are_whole_multiples_of_ln_2():
    multiples = QUERY @ KEY.T / np.sqrt(4) / np.log(2)
    assert np.allclose(multiples, [[0, 1, 0], [2, 0, 1], [1, 2, 0]], atol=1e-15)


def test_weights_are_fractions_of_4_and_7():
    expected = [[1 / 4, 1 / 2, 1 / 4], [4 / 7, 1 / 7, 2 / 7], [2 / 7, 4 / 7, 1 / 7]]
    weights, _ = softmax(QUERY @ KEY.T / np.sqrt(4))
    assert np.allclose(weights, expected, rtol=1e-14, atol=0)
    _, cache = attention(QUERY, KEY, EMBEDDING)
    assert np.allclose(cache.weights, weights, rtol=1e-14, atol=0)


def test_the_head_turns_values_into_whole_numbers_and_one_fraction():
    output, _ = attention(QUERY, KEY, VALUE)
    assert np.allclose(output, [[-1, 15 / 4], [0, 4], [-1, 4]], rtol=1e-14, atol=1e-15)


def test_gradients_of_the_head_are_fractions_of_7():
    _, cache = attention(QUERY, KEY, VALUE)
    doutput = np.array([[0.0, 0.0], [2.0, 1.0], [0.0, 0.0]])
    dquery, dkey, dvalue = attention_backward(doutput, cache)
    assert np.allclose(dvalue * 7, [[8, 4], [2, 1], [4, 2]])
    assert np.allclose(dquery * 7, [[0] * 4, [6, -2, -4, 4], [0] * 4])
    expected = np.outer([12, -4, -8], [2, 0, 1, 0])
    assert np.allclose(dkey * 7 / np.log(2), expected)
