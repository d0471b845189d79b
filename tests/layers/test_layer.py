import numpy as np

from transformer_core.layers import Linear
from transformer_core.layers.layer import Layer


def test_parameters_of_sublayers_get_dotted_names(rng):
    outer, inner = Layer(), Layer()
    first, second = Linear(2, 3, rng), Linear(3, 4, rng)
    inner.sublayers = {"second": second}
    outer.sublayers = {"first": first, "inner": inner}
    parameters = outer.parameters()
    assert list(parameters) == [
        "first.weight",
        "first.bias",
        "inner.second.weight",
        "inner.second.bias",
    ]
    assert parameters["inner.second.weight"] is second.weight


def test_a_parameter_changed_in_place_changes_the_layer(rng):
    linear = Linear(2, 3, rng)
    linear.parameters()["bias"] += 5
    assert np.array_equal(linear.bias, [5, 5, 5])
