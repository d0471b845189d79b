import numpy as np

from transformer_core.names import join, summary


def test_join_flattens_one_level_and_keeps_the_arrays():
    weight, bias, gamma = np.ones(1), np.ones(2), np.ones(3)
    joined = join(
        {"linear": {"weight": weight, "a.bias": bias}, "norm": {"gamma": gamma}}
    )
    assert list(joined) == ["linear.weight", "linear.a.bias", "norm.gamma"]
    assert joined["linear.weight"] is weight and joined["norm.gamma"] is gamma


def test_join_of_joined_names_nests():
    assert list(join({"a": join({"b": {"c": 1}})})) == ["a.b.c"]


def test_join_of_nothing_is_empty():
    assert join({}) == join({"layer": {}}) == {}


def test_summary_names_three_in_order_and_counts_the_rest():
    assert summary(set()) == "none"
    assert summary({"b", "a"}) == "a, b"
    assert summary(["c", "a", "b"]) == "a, b, c"
    assert summary(["e", "c", "a", "d", "b"]) == "a, b, c and 2 more"
