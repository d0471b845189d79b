"""Exercises whose functions the package does not have: these are right, by another way."""

from itertools import product

import numpy as np
import pytest

from transformer_core.layers import AttentionSpec, LayerSpec
from transformer_core.models import Bert, Encoder, StackSpec, greedy_search
from transformer_core.optim import clip_by_global_norm
from transformer_practice.exercises import find_exercise
from transformer_practice.exercises.bert import smallest_bert, smallest_bert_backward
from transformer_practice.exercises.cost import (
    RecomputingEncoder,
    count_bert_parameters,
    count_bytes,
    count_operations,
)
from transformer_practice.exercises.eigenvalues import power_iteration
from transformer_practice.exercises.expectation import masked_sum, mean_and_error
from transformer_practice.exercises.many_machines import norm_over_ranks
from transformer_practice.exercises.train_encoder_decoder import read_plainly


def test_the_parameters_are_those_of_a_model():
    spec = LayerSpec(6, AttentionSpec(2, bias=False), 29, "post")
    model = Bert(spec, StackSpec(101, 13, 3), np.random.default_rng(0))
    size = sum(array.size for array in model.parameters().values())
    assert count_bert_parameters(101, 13, 6, 29, 3) == size
    assert count_bert_parameters(8192, 64, 192, 768, 3) == 4_498_880


def test_the_operations_and_bytes_are_those_of_the_page():
    # 100 times the sentence of the page: one layer of D = 4, F = 16, and no output layer.
    assert count_operations(100, 3, 4, 16, 1, 101, 0) == 129_600
    layer = 4 * (8 * 24 + 96 + 18 + 12) + 96  # B = 2, T = 3, D = 4, H = 1, F = 16
    assert count_bytes(2, 3, 4, 1, 16, 5, 7, 0) - count_bytes(2, 3, 4, 1, 16, 4, 7, 0) == (layer)


def test_the_question_of_the_chapter_on_bert():
    table = np.array([[4.0, 2, 2, -4], [2, 0, 2, 0], [0, -6, 2, 0]])
    h = np.log(2) * np.array([-1 / 2, 0, 1 / 2, -3 / 4])
    positions = np.stack([np.ones(4), h - table[2], np.ones(4)])
    logits, cache = smallest_bert(np.array([[0, 2, 2]]), table, positions)
    assert np.allclose(logits[0, 1], [2 * np.log(2), 0, np.log(2)])
    dlogits = np.zeros((1, 3, 3))
    dlogits[0, 1] = np.array([4, -6, 2]) / 7
    dtable, dpositions = smallest_bert_backward(dlogits, cache)
    of_row = np.array([4, -4, 0, -16]) / 7
    expected = np.outer([4, -6, 2], h) / 7 + np.outer([0, 0, 1], of_row)
    assert np.allclose(dtable, expected)
    assert np.allclose(dpositions, np.outer([0, 1, 0], of_row))


def test_moments_over_all_masks():
    x, p = np.array([0.5, -2.0, 3.0, 1.5]), 0.3
    masks = np.array(list(product([0, 1], repeat=4)))
    chances = np.prod(np.where(masks, 1 - p, p), axis=1)
    sums = masks @ x / (1 - p)
    mean = chances @ sums
    assert np.allclose(masked_sum(x, p), [mean, chances @ (sums - mean) ** 2])


def test_the_error_of_a_mean():
    runs = np.array([2.0, 4, 9])
    assert np.allclose(mean_and_error(runs), [5, runs.std(ddof=1) / np.sqrt(3)])


def test_power_iteration_ends_at_the_largest_eigenvalue():
    a = np.array([[2.0, 1], [1, 2]])
    value, vector = power_iteration(a, np.array([1.0, 0]), 60)
    assert np.isclose(value, 3) and np.allclose(vector, np.sqrt([0.5, 0.5]))


def test_a_recomputing_encoder_is_the_encoder_bit_by_bit():
    spec = LayerSpec(6, 2, 7, "post")
    one, other = (
        kind(spec, 3, np.random.default_rng(0), final_norm=True)
        for kind in (Encoder, RecomputingEncoder)
    )
    x, dy = np.random.default_rng(1).normal(size=(2, 2, 4, 6)).astype(np.float32)
    (y, cache), (y_again, cache_again) = one.forward(x), other.forward(x)
    dx, grads = one.backward(dy, cache)
    dx_again, grads_again = other.backward(dy, cache_again)
    assert np.array_equal(y, y_again) and np.array_equal(dx, dx_again)
    assert grads.keys() == grads_again.keys()
    assert all(np.array_equal(grads[name], grads_again[name]) for name in grads)


def test_the_norm_over_ranks_is_that_of_the_whole():
    for point in find_exercise("norm_over_ranks").points():
        sharded, replicated = point.arguments.values()
        pieces = [rank["output.weight"] for rank in sharded if rank]
        whole = {"output.weight": np.concatenate(pieces)} if pieces else {}
        whole |= replicated
        _, norm = clip_by_global_norm(whole, 1.0)
        assert np.isclose(norm_over_ranks(sharded, replicated), norm, rtol=1e-14)


def test_reading_without_a_cache_is_greedy_search():
    for point in find_exercise("read_plainly").points():
        model, source, keep, start, number = point.arguments.values()
        lengths = np.broadcast_to(keep[:, 0, 0], source.shape).sum(axis=1)
        plain = read_plainly(model, source, keep, start, number)
        for row, tokens in enumerate(plain):
            end = next(v for v in range(11) if v not in tokens)
            one = slice(row, row + 1)
            searched, _ = greedy_search(
                model, source[one], lengths[one], start=start, end=end, longest=number
            )
            assert np.array_equal(searched[0], tokens)


def run(name, function):
    exercise = find_exercise(name)
    point = exercise.points()[0]
    return exercise.run_forward(function, point, lambda f, *arguments: f(*arguments))[0]


def masking(hide, replace):
    """Another order of draws, as in published codes."""

    def mask(ids, vocabulary, rng, share=0.15):
        masked = (rng.random(ids.shape) < share) & (ids >= 5)
        hidden = masked & (rng.random(ids.shape) < hide)
        replaced = masked & ~hidden & (rng.random(ids.shape) < replace)
        words = rng.integers(5, vocabulary, ids.shape)
        return np.where(hidden, 4, np.where(replaced, words, ids)), masked

    return mask


@pytest.mark.parametrize(("replace", "right"), [(0.5, True), (0.1, False)])
def test_masking_is_judged_whatever_the_order_of_its_draws(replace, right):
    found = run("mask", masking(0.8, replace))
    expected = run("mask", find_exercise("mask").forward)
    assert (found == expected) == right


def test_a_draw_that_always_takes_the_first_is_found():
    def first(ids, rng, share=0.15):
        candidates = ids >= 5
        number = max(1, round(share * ids.shape[1]))
        return candidates & (np.cumsum(candidates, axis=1) <= number)

    found, right = run("draw", first), run("draw", find_exercise("draw").forward)
    assert np.array_equal(
        found["tokens drawn of each sequence"], right["tokens drawn of each sequence"]
    )
    assert right["never drawn"] == 0 < found["never drawn"]
