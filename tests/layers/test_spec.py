import inspect
import json
from dataclasses import asdict, is_dataclass, replace
from importlib import import_module
from pkgutil import walk_packages

import numpy as np
import pytest

import transformer_core
import transformer_practice
from transformer_core.layers import AttentionSpec, EncoderLayer, LayerSpec, NormSpec

MOST = 8  # parameters of a constructor


def test_a_spec_goes_into_settings_as_it_is():
    attention = AttentionSpec(2, key_width=5, value_width=4, bias=False)
    norm = NormSpec(eps=1e-12)
    spec = LayerSpec(6, attention, 7, "post", norm, "gelu", 0.1, np.float64)
    settings = json.loads(json.dumps(asdict(spec)))
    assert settings["attention"]["heads"] == 2 and settings["dtype"] == "float64"
    assert LayerSpec.from_settings(settings) == spec


def test_settings_of_before_a_field_with_a_default_are_read():
    spec = LayerSpec(6, AttentionSpec(2, bias=False), 7, "pre")
    settings = asdict(spec)
    del settings["attention"]["key_heads"], settings["attention"]["transform"], settings["dropout"]
    assert LayerSpec.from_settings(settings) == spec


def test_a_number_of_heads_is_enough():
    assert LayerSpec(6, 2, 7, "pre") == LayerSpec(6, AttentionSpec(2), 7, "pre")


def test_a_spec_cannot_be_changed_but_replaced():
    spec = LayerSpec(6, 2, 7, "pre")
    with pytest.raises(AttributeError):
        spec.width = 8
    assert replace(spec, width=8) == LayerSpec(8, 2, 7, "pre")


def test_the_epsilon_arrives_in_every_norm(rng):
    built = EncoderLayer(LayerSpec(6, 2, 7, "pre", NormSpec(eps=0.5)), rng)
    assert {built.attention.norm.eps, built.feed_forward.norm.eps} == {0.5}


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"width": 6.0}, "width: expected a whole number of at least 1, got 6.0"),
        ({"width": -2}, "width: expected a whole number of at least 1, got -2"),
        ({"attention": 4}, "heads: expected a divisor of the width 6, got 4"),
        ({"hidden_width": 0}, "hidden_width: expected a whole number of at least 1, got 0"),
        ({"placement": "both"}, "placement: expected 'post' or 'pre', got 'both'"),
        ({"placement": None}, "placement: expected 'post' or 'pre', got None"),
        ({"feed_forward": "sine"}, "feed_forward: expected one of relu, .* got 'sine'"),
        ({"dropout": 1.0}, r"dropout: expected a number in \[0, 1\), got 1.0"),
    ],
)
def test_bad_settings_are_named(changed, message):
    settings = {"width": 6, "attention": 2, "hidden_width": 7, "placement": "pre"} | changed
    with pytest.raises(ValueError, match=message):
        LayerSpec(**settings)


def test_an_unknown_norm_is_named():
    with pytest.raises(ValueError, match="norm: expected one of layer_norm, .*got 'sine'"):
        NormSpec("sine")


@pytest.mark.parametrize(
    "spec, message",
    [
        ((4,), "heads: expected a divisor of the width 6, got 4"),
        ((4, 2), "heads: expected a divisor of the width 6"),
        ((4, 0, 2), "key_width: expected a whole number .* got 0"),
        ((4, 2, 1.5), "value_width: expected a whole number .* got 1.5"),
        ((0, 2, 2), "heads: expected a whole number .* got 0"),
    ],
)
def test_bad_heads_are_named(spec, message):
    with pytest.raises(ValueError, match=message):
        LayerSpec(6, AttentionSpec(*spec), 7, "pre")


def test_heads_that_do_not_divide_the_width_may_have_widths_of_their_own(rng):
    built = EncoderLayer(LayerSpec(6, AttentionSpec(4, 3, 2), 7, "pre"), rng)
    attention = built.attention.branch
    assert attention.query_key_value.weight.shape == (6, 4 * (3 + 3 + 2))
    assert attention.output.weight.shape == (4 * 2, 6)


# How much a constructor asks for


def constructors():
    for package in transformer_core, transformer_practice:
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.endswith("__main__"):
                continue
            for name, value in vars(import_module(module.name)).items():
                if (
                    inspect.isclass(value)
                    and value.__module__ == module.name
                    and "__init__" in vars(value)
                    and not (is_dataclass(value) and package is transformer_practice)  # records
                ):
                    yield pytest.param(value, id=f"{module.name}.{name}")


@pytest.mark.parametrize("kind", list(constructors()))
def test_no_constructor_asks_for_more_than_eight_things(kind):
    assert len(inspect.signature(kind).parameters) <= MOST
