import numpy as np
import pytest
from helpers.cases import LAYERS
from helpers.witnesses import causal, generators, padding, randomise, sizes
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.layers import DecoderLayer, LayerSpec

norms = st.sampled_from(["post", "pre"])


@st.composite
def layers(draw):
    """A layer of random shape with both its inputs, and the padding of its source."""
    rng = draw(generators)
    batch, queries, keys, heads, width = (draw(sizes) for _ in range(5))
    spec = LayerSpec(heads * width, heads, width + 3, draw(norms), dtype=np.float64)
    layer = DecoderLayer(spec, rng)
    x, source = (rng.normal(size=(batch, length, heads * width)) for length in (queries, keys))
    return randomise(layer, rng), x, source, rng.integers(0, keys + 1, batch)


@pytest.mark.equation("eq:decoder-layer-backward")
@pytest.mark.parametrize("name", [name for name in LAYERS if "DecoderLayer" in name])
def test_gradients_agree_with_the_witnesses(check, name):
    check.layer(LAYERS[name])


@pytest.mark.equation("eq:decoder-layer")
@given(layers())
def test_the_layer_attends_to_itself_then_to_the_source_then_feeds_forward(drawn):
    layer, x, source, lengths = drawn
    keep, source_keep = causal(x.shape[1]), padding(lengths, source.shape[1])
    attended, _ = layer.self_attention.forward(x, keep)
    crossed, _ = layer.cross_attention.forward(attended, source, source_keep)
    expected, _ = layer.feed_forward.forward(crossed)
    y, _ = layer.forward(x, source, keep, source_keep)
    assert np.array_equal(y, expected)


@pytest.mark.equation("eq:cached-attention")
@given(layers())
def test_position_by_position_the_outputs_are_the_same(drawn):
    layer, x, source, lengths = drawn
    keep = padding(lengths, source.shape[1])
    y, cache = layer.forward(x, source, causal(x.shape[1]), keep)
    state = layer.begin(source)
    for t in range(x.shape[1]):
        earlier = [array.copy() for array in state.past]
        y_t, extended = layer.step(x[:, t : t + 1], state, keep)
        assert np.allclose(y_t, y[:, t : t + 1], rtol=1e-10, atol=1e-10)
        assert all(map(np.array_equal, state.past, earlier))
        state = extended
    past = state.past
    attention = cache.self_attention.branch.attention
    assert np.allclose(past.key, attention.key, rtol=1e-10, atol=1e-10)
    assert np.allclose(past.value, attention.value, rtol=1e-10, atol=1e-10)


def test_parameter_names(rng):
    biased = ["weight", "bias"]
    arrays = {
        "self_attention.branch.query_key_value": biased,
        "self_attention.branch.output": biased,
        "self_attention.norm": ["gamma", "beta"],
        "cross_attention.branch.query": biased,
        "cross_attention.branch.key_value": biased,
        "cross_attention.branch.output": biased,
        "cross_attention.norm": ["gamma", "beta"],
        "feed_forward.branch.hidden": biased,
        "feed_forward.branch.output": biased,
        "feed_forward.norm": ["gamma", "beta"],
    }
    assert list(DecoderLayer(LayerSpec(4, 2, 5, "pre"), rng).parameters()) == [
        f"{part}.{name}" for part, names in arrays.items() for name in names
    ]


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"source": np.ones((2, 4, 5))}, r"source: .* \(2, S, 6\), got \(2, 4, 5\)"),
        ({"keep": causal(4)}, r"keep: .* \(2, 2, 5, 5\), got \(4, 4\)"),
        ({"source_keep": causal(5)}, r"keep: .* \(2, 2, 5, 4\), got \(5, 5\)"),
    ],
)
def test_bad_input_is_named(rng, changed, message):
    layer = DecoderLayer(LayerSpec(6, 2, 7, "pre", dtype=np.float64), rng)
    given = {"x": np.ones((2, 5, 6)), "source": np.ones((2, 4, 6))}
    with pytest.raises(ValueError, match=message):
        layer.forward(**(given | changed))
