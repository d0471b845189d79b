from fractions import Fraction

import numpy as np
import pytest
from helpers.witnesses import assert_same_bits, generators, randomise
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.layers import Linear
from transformer_core.ops import cross_entropy, cross_entropy_backward
from transformer_core.training import combine

B, T, D, V = 6, 5, 4, 7


class Model:
    """Logits from a linear layer, and the mean loss over the counted tokens."""

    def __init__(self, rng, dtype=np.float64):
        self.layer = randomise(Linear(D, V, rng, dtype), rng)
        self.x = rng.normal(size=(B, T, D)).astype(dtype)
        self.targets = rng.integers(V, size=(B, T))
        # Every sequence counts another number of tokens, and at least one.
        self.counted = np.arange(T) < np.array([1, 5, 2, 2, 4, 3])[:, np.newaxis]

    def part(self, start, stop):
        where = slice(start, stop)
        logits, layer_cache = self.layer.forward(self.x[where])
        loss, loss_cache = cross_entropy(logits, self.targets[where], self.counted[where])
        _, grads = self.layer.backward(cross_entropy_backward(1, loss_cache), layer_cache)
        return self.counted[where].sum(), loss, grads


def same(left, right, tolerance=1e-14):
    return left[0] == right[0] and all(
        np.allclose(a, b, rtol=tolerance, atol=tolerance)
        for a, b in [(left[1], right[1]), *((left[2][name], right[2][name]) for name in right[2])]
    )


@pytest.mark.equation("eq:accumulation")
@given(generators, st.sets(st.integers(1, B - 1)))
def test_parts_make_up_the_whole_batch(rng, cuts):
    model = Model(rng)
    edges = [0, *sorted(cuts), B]
    combined = combine(model.part(a, b) for a, b in zip(edges, edges[1:], strict=False))
    assert same(combined, model.part(0, B))


def test_parts_may_be_combined_in_turn(rng):
    model = Model(rng)
    machines = [
        combine([model.part(0, 1), model.part(1, 3)]),
        combine([model.part(3, 4), model.part(4, 6)]),
    ]
    assert same(combine(machines), model.part(0, B))


def test_the_tokens_of_the_book():
    one = (1, 8.0, {"w": np.array([8.0])})
    three = (3, 2.0, {"w": np.array([2.0])})
    weight, loss, grads = combine([one, three])
    assert (weight, loss, grads["w"]) == (4, 3.5, 3.5)


@pytest.mark.equation("eq:mean-of-means")
@given(st.lists(st.tuples(st.integers(1, 20), st.fractions()), min_size=1, max_size=6))
def test_the_mean_of_means_misses_by_the_covariance(parts):
    counts, losses = zip(*parts, strict=True)
    size = Fraction(len(parts))
    whole = sum(n * loss for n, loss in parts) / sum(counts)
    mean_count, mean_loss = sum(counts) / size, sum(losses) / size
    covariance = sum((n - mean_count) * (l - mean_loss) for n, l in parts) / size  # noqa: E741
    assert mean_loss - whole == -covariance / mean_count


def test_a_single_part_comes_back(rng):
    part = Model(rng).part(0, B)
    assert same(combine([part]), part)


def test_a_part_without_counted_tokens_takes_no_part(rng):
    part = Model(rng).part(0, B)
    empty = (0, 0.0, {name: np.zeros_like(grad) for name, grad in part[2].items()})
    assert same(combine([empty, part, empty]), part)


def test_weights_may_be_fractions():
    parts = [(0.5, 1.0, {"w": np.ones(2)}), (1.5, 3.0, {"w": 5 * np.ones(2)})]
    weight, loss, grads = combine(parts)
    assert (weight, loss) == (2, 2.5) and np.array_equal(grads["w"], [4.0, 4.0])


def test_in_place_the_sum_stands_in_the_first_counted_part(rng):
    model = Model(rng)
    nothing = (0, 0.0, {n: np.full_like(g, 7) for n, g in model.part(0, 1)[2].items()})
    parts = [nothing, model.part(0, 2), model.part(2, B)]
    plain = combine(parts)
    copy = {name: grad.copy() for name, grad in parts[2][2].items()}
    combined = combine(parts, in_place=True)
    assert combined[2] is parts[1][2]
    assert same(combined, plain, tolerance=0)
    assert_same_bits(parts[2][2], copy)
    assert all((grad == 7).all() for grad in nothing[2].values())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept_and_parts_are_not_modified(rng, dtype):
    model = Model(rng, dtype)
    parts = [model.part(0, 2), model.part(2, B)]
    copies = [{name: grad.copy() for name, grad in part[2].items()} for part in parts]
    weight, loss, grads = combine(parts)
    assert type(weight) is float and type(loss) is float
    assert {grad.dtype for grad in grads.values()} == {np.dtype(dtype)}
    for (_, _, part), copy in zip(parts, copies, strict=True):
        assert_same_bits(part, copy)
        assert not any(np.shares_memory(part[name], grads[name]) for name in grads)


@pytest.mark.parametrize("weight", [1e308, 2**1023])
def test_weights_whose_sum_is_infinite_are_named(weight):
    with pytest.raises(ValueError, match="weight of part 1: expected .* finite"):
        combine([(weight, 1.0, {"w": np.ones(1)})] * 2)


@pytest.mark.parametrize("grads", [{"v": np.ones(2)}, {"w": np.ones(3)}, {}])
@pytest.mark.parametrize("weights", [(0, 1), (1, 0)])
def test_a_part_that_counts_nothing_has_to_fit_too(grads, weights):
    parts = [(weights[0], 1.0, {"w": np.ones(2)}), (weights[1], 1.0, grads)]
    with pytest.raises(ValueError, match="grads of part 1: "):
        combine(parts)


@pytest.mark.parametrize("parts", [[], [(0, 0.0, {"w": np.zeros(1)})] * 2])
def test_nothing_counted_is_named(parts):
    with pytest.raises(ValueError, match="parts: expected at least one counted token"):
        combine(parts)


@pytest.mark.parametrize(
    "grads, message",
    [
        ({"v": np.ones(2)}, "grads of part 1: expected 1 names, missing w; unknown v"),
        ({}, "missing w; unknown none"),
        ({"w": np.ones(1)}, r"grads of part 1: w: expected shape \(2\), got \(1,\)"),
    ],
)
def test_parts_that_do_not_fit_are_named(grads, message):
    with pytest.raises(ValueError, match=message):
        combine([(1, 1.0, {"w": np.ones(2)}), (1, 1.0, grads)])
