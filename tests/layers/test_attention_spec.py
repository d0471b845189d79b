import json
from dataclasses import asdict

import numpy as np
import pytest
from helpers.witnesses import normal, randomise

from transformer_core.layers import AttentionSpec, LayerSpec, MultiHeadSelfAttention
from transformer_core.ops import rotary_frequencies, window_keep

SCALING = {"rope_type": "linear", "factor": 2.0}
LONGER = {"kind": "rotary_halves", "base": 1e6, "scaling": SCALING}


def test_a_transform_is_built_with_its_settings():
    spec = AttentionSpec(2, transform=LONGER)
    attention = MultiHeadSelfAttention(8, spec, np.random.default_rng(0))
    for transform in (attention.query_transform, attention.key_transform):
        assert np.array_equal(transform.frequencies, rotary_frequencies(4, 1e6, SCALING))
        assert transform.halves
    layer = LayerSpec(8, spec, 7, "pre")
    assert LayerSpec.from_settings(json.loads(json.dumps(asdict(layer)))) == layer


@pytest.mark.parametrize(
    "transform, message",
    [
        ({"kind": "none"}, "transform: expected one of rotary, .* got 'none'"),
        ({"base": 1e6}, "transform: expected one of rotary, .* got None"),
        ({"kind": "rotary", "theta": 1e6}, "settings of rotary: expected one of base, scaling"),
        ({"kind": "rotary", "halves": True}, "settings of rotary: expected one of base, scaling"),
        ({"kind": "rotary", "eps": 1e-6}, "settings of rotary: expected one of base, scaling"),
    ],
)
def test_another_transform_is_refused(transform, message):
    with pytest.raises(ValueError, match=message):
        AttentionSpec(2, transform=transform)


def test_eps_of_a_norm_is_a_setting():
    spec = AttentionSpec(2, transform={"kind": "qk_norm_rotary", "eps": 1e-3})
    assert spec.make_transform(4, "float64").norm.eps == 1e-3


@pytest.mark.equation("eq:window-keep")
@pytest.mark.parametrize("window", [1, 2, 5, 6])
@pytest.mark.parametrize("transform", [None, "rotary_halves"])
def test_a_window_is_a_mask_in_the_pass_and_in_steps(rng, window, transform):
    def attention(window=None):
        spec = AttentionSpec(2, key_heads=1, transform=transform, window=window)
        return randomise(
            MultiHeadSelfAttention(8, spec, np.random.default_rng(0), "float64"),
            np.random.default_rng(1),
        )

    x = normal(rng, (2, 5, 8))
    lengths = np.arange(5) < np.array([[5], [4]])
    keep = lengths[:, np.newaxis, np.newaxis]
    windowed = attention(window)
    y, _ = windowed.forward(x, keep)
    expected, _ = attention().forward(x, keep & window_keep(5, window))
    np.testing.assert_allclose(y, expected, atol=1e-14)

    whole, _ = windowed.forward(x)
    for cuts in ([1, 2, 3, 4], [2], [3, 4]):
        past, pieces = windowed.begin(2), []
        for piece in np.split(x, cuts, axis=1):
            y, past = windowed.step(piece, past)
            pieces.append(y)
        np.testing.assert_allclose(np.concatenate(pieces, axis=1), whole, atol=1e-14)
