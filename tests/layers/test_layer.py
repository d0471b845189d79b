import numpy as np

from transformer_core.layers import FeedForward, Layer, Linear


def test_parameters_of_sublayers_get_dotted_names(rng):
    outer, inner = Layer(), Layer()
    inner.second = second = Linear(3, 4, rng)
    outer.scale = np.ones(3)
    outer.first, outer.heads, outer.none = Linear(2, 3, rng), 3, None
    outer.inner = inner
    outer.layers = [Linear(1, 1, rng, bias=False), Linear(1, 1, rng, bias=False)]
    parameters = outer.parameters()
    assert list(parameters) == [
        "scale",
        "first.weight",
        "first.bias",
        "inner.second.weight",
        "inner.second.bias",
        "layer_0.weight",
        "layer_1.weight",
    ]
    assert parameters["inner.second.weight"] is second.weight


def test_a_layer_under_two_names_counts_once(rng):
    layer = Layer()
    layer.first = layer.second = Linear(2, 3, rng)
    assert list(layer.parameters()) == ["first.weight", "first.bias"]


def test_replacing_a_part_replaces_its_parameters(rng):
    layer = FeedForward(2, 3, rng)
    old = layer.hidden
    layer.hidden = Linear(2, 3, rng)
    assert layer.parameters()["hidden.weight"] is layer.hidden.weight
    assert layer.parameters()["hidden.weight"] is not old.weight


def test_a_part_needs_nothing_but_parameters(rng):
    class Stranger:
        def parameters(self):
            return {"array": np.ones(2)}

    layer = FeedForward(2, 3, rng)
    layer.output = Stranger()
    assert list(layer.parameters()) == ["hidden.weight", "hidden.bias", "output.array"]


def test_a_parameter_changed_in_place_changes_the_layer(rng):
    linear = Linear(2, 3, rng)
    linear.parameters()["bias"] += 5
    assert np.array_equal(linear.bias, [5, 5, 5])
