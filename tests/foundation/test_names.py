import numpy as np

from transformer_core.foundation.names import join, sizes, summary


def test_join_flattens_one_level_and_keeps_the_arrays():
    weight, bias, gamma = np.ones(1), np.ones(2), np.ones(3)
    joined = join({"linear": {"weight": weight, "a.bias": bias}, "norm": {"gamma": gamma}})
    assert list(joined) == ["linear.weight", "linear.a.bias", "norm.gamma"]
    assert joined["linear.weight"] is weight and joined["norm.gamma"] is gamma


def test_join_of_joined_names_nests():
    assert list(join({"a": join({"b": {"c": 1}})})) == ["a.b.c"]


def test_join_of_nothing_is_empty():
    assert join({}) == join({"layer": {}}) == {}


def test_sizes_are_counted_by_the_first_parts_of_the_names():
    arrays = {
        "a.b.weight": np.ones((2, 3)),
        "a.b.bias": np.ones(3),
        "a.c": np.ones(5),
        "d": np.ones(7),
    }
    assert sizes(arrays, 1) == {"a": 14, "d": 7}
    assert sizes(arrays, 2) == {"a.b": 9, "a.c": 5, "d": 7}
    assert sizes({}, 1) == {}


def test_summary_names_three_in_order_and_counts_the_rest():
    assert summary(set()) == "none"
    assert summary({"b", "a"}) == "a, b"
    assert summary(["c", "a", "b"]) == "a, b, c"
    assert summary(["e", "c", "a", "d", "b"]) == "a, b, c and 2 more"
