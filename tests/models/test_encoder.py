import numpy as np
import pytest
from helpers.cases import STACKS, split_variant
from helpers.witnesses import arrays_in, assert_close, causal, generators, padding, randomise, sizes
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.distributed import ParallelSelfAttention, conjugate_pair
from transformer_core.layers import AttentionSpec, LayerSpec
from transformer_core.models import Encoder
from transformer_core.ranks import on_threads

variants = st.fixed_dictionaries(
    {"placement": st.sampled_from(["post", "pre"]), "final_norm": st.booleans()}
)


def draw(rng, batch, length, heads, width, variant):
    spec, others = split_variant(heads * width, heads, width + 3, variant)
    encoder = Encoder(spec, 2, rng, **others)
    return randomise(encoder, rng), rng.normal(size=(batch, length, heads * width))


@pytest.mark.slow
@pytest.mark.equation("eq:chain-backward")
@pytest.mark.parametrize("name", [name for name in STACKS if "Encoder" in name])
def test_gradients_agree_with_the_witnesses(check, name):
    check.layer(STACKS[name])


@given(generators, sizes, sizes, sizes, sizes, variants)
def test_the_outputs_follow_the_order_of_the_tokens(rng, batch, length, heads, width, variant):
    encoder, x = draw(rng, batch, length, heads, width, variant)
    lengths = rng.integers(1, length + 1, batch)
    order = rng.permutation(length)
    keep = padding(lengths, length)
    y, cache = encoder.forward(x, keep)
    permuted, permuted_cache = encoder.forward(x[:, order], keep[..., order])
    assert np.allclose(permuted, y[:, order], rtol=1e-7, atol=1e-7)
    dy = rng.normal(size=y.shape)
    dx, grads = encoder.backward(dy, cache)
    permuted_dx, permuted_grads = encoder.backward(dy[:, order], permuted_cache)
    assert_close({"x": permuted_dx} | permuted_grads, {"x": dx[:, order]} | grads, 1e-6)


@given(generators, sizes, sizes, sizes, sizes, variants)
def test_a_causal_output_does_not_see_the_future(rng, batch, length, heads, width, variant):
    encoder, x = draw(rng, batch, length, heads, width, variant)
    y, cache = encoder.forward(x, causal(length))
    now = rng.integers(length)
    dy = np.zeros_like(y)
    dy[:, : now + 1] = rng.normal(size=dy[:, : now + 1].shape)
    dx, _ = encoder.backward(dy, cache)
    assert (dx[:, now + 1 :] == 0).all()
    x[:, now + 1 :] += rng.normal(size=x[:, now + 1 :].shape)
    changed, _ = encoder.forward(x, causal(length))
    assert np.allclose(changed[:, : now + 1], y[:, : now + 1], rtol=1e-7, atol=1e-7)


@given(generators, sizes, sizes, sizes, sizes, variants)
def test_padding_does_not_change_the_tokens(rng, batch, length, heads, width, variant):
    encoder, x = draw(rng, batch, length, heads, width, variant)
    padded = np.concatenate([x, rng.normal(size=x.shape)], axis=1)
    y, cache = encoder.forward(x)
    with_padding, padded_cache = encoder.forward(padded, padding([length] * batch, 2 * length))
    assert np.allclose(with_padding[:, :length], y, rtol=1e-7, atol=1e-7)
    dy = rng.normal(size=padded.shape)
    dy[:, length:] = 0
    dx, grads = encoder.backward(dy[:, :length], cache)
    padded_dx, padded_grads = encoder.backward(dy, padded_cache)
    assert (padded_dx[:, length:] == 0).all()
    assert_close({"x": padded_dx[:, :length]} | padded_grads, {"x": dx} | grads, 1e-6)


@given(generators, sizes, sizes, sizes, sizes, variants)
def test_sequences_of_a_batch_do_not_see_each_other(rng, batch, length, heads, width, variant):
    encoder, x = draw(rng, batch, length, heads, width, variant)
    dy = rng.normal(size=x.shape)
    y, cache = encoder.forward(x, causal(length))
    dx, grads = encoder.backward(dy, cache)
    parts = []
    for b in range(batch):
        alone, cache = encoder.forward(x[b : b + 1], causal(length))
        assert np.allclose(alone, y[b : b + 1], rtol=1e-7, atol=1e-7)
        parts.append(encoder.backward(dy[b : b + 1], cache))
    total = {name: sum(part[name] for _, part in parts) for name in grads}
    total["x"] = np.concatenate([part_dx for part_dx, _ in parts])
    assert_close({"x": dx} | grads, total, 1e-6)


def test_layers_run_in_order_then_the_norm(rng):
    encoder, x = draw(rng, 2, 5, 2, 3, {"placement": "pre", "final_norm": True})
    expected = x
    for part in [*encoder.layers, encoder.final_norm]:
        expected, _ = part.forward(expected)
    assert np.array_equal(encoder.forward(x)[0], expected)


@pytest.mark.parametrize("final_norm", [False, True])
def test_only_the_parts_asked_for_have_parameters(rng, final_norm):
    encoder = Encoder(LayerSpec(4, 2, 5, "pre"), 3, rng, final_norm)
    prefixes = {name.split(".")[0] for name in encoder.parameters()}
    expected = {"layer_0", "layer_1", "layer_2"} | ({"final_norm"} if final_norm else set())
    assert prefixes == expected
    _, cache = encoder.forward(np.ones((1, 2, 4)))
    assert (cache.final_norm is not None) == final_norm


def test_parameters_are_float32_unless_told_otherwise(rng):
    encoder = Encoder(LayerSpec(4, 2, 5, "pre"), 1, rng, final_norm=True)
    dtypes = {array.dtype for array in encoder.parameters().values()}
    assert dtypes == {np.dtype(np.float32)}


def test_a_stack_without_layers_is_named(rng):
    with pytest.raises(ValueError, match="layers: expected a whole number of at least 1, got 0"):
        Encoder(LayerSpec(6, 2, 7, "pre"), 0, rng, final_norm=False)


@pytest.mark.parametrize("width", [6, np.int64(6)])
@pytest.mark.parametrize(
    "x, message",
    [
        (np.ones((2, 5, 8)), r"x: expected shape \(B, T, 6\), got \(2, 5, 8\)"),
        (np.ones((5, 6)), r"x: expected shape \(B, T, 6\), got \(5, 6\)"),
    ],
)
def test_bad_input_is_named(rng, width, x, message):
    encoder = Encoder(LayerSpec(width, 2, 7, "pre"), 1, rng, final_norm=False)
    with pytest.raises(ValueError, match=message):
        encoder.forward(x)


def step(encoder, x, dy, keep):
    """Both passes in training, and the state of the generator behind them."""
    rng = np.random.default_rng(3)
    y, cache = encoder.forward(x, keep, rng)
    dx, grads = encoder.backward(dy, cache)
    return {"y": y, "x": dx} | grads, cache, rng.bit_generator.state


@pytest.mark.equation("eq:recomputation-bytes")
def test_recomputation_changes_no_bit_and_keeps_only_inputs(rng):
    batch, length, width, layers = 2, 5, 6, 3
    spec = LayerSpec(width, 2, 7, "pre", dropout=0.3, dtype="float64")
    encoder = randomise(Encoder(spec, layers, rng, True), rng)
    x, dy = rng.normal(size=(2, batch, length, width))
    expected, whole, state = step(encoder, x, dy, causal(length))
    encoder.recompute = True
    found, cache, again = step(encoder, x, dy, causal(length))
    assert found.keys() == expected.keys() and again == state
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    kept = [given.x for given in cache.layers]
    assert sum(array.nbytes for array in kept) == layers * batch * length * width * 8
    assert sum(a.nbytes for a in arrays_in(whole.layers)) > 10 * sum(a.nbytes for a in kept)


@pytest.mark.parametrize("tile", [None, 2])
def test_recomputation_draws_what_the_ranks_have_drawn(rng, tile):
    spec = LayerSpec(6, AttentionSpec(2, tile=tile), 7, "pre", dropout=0.3, dtype="float64")
    x, dy = rng.normal(size=(2, 2, 5, 6))
    encoder = randomise(Encoder(spec, 2, rng, True), rng)

    def work(c):
        found = []
        for recompute in (False, True):
            own = Encoder(spec, 2, np.random.default_rng(0), True, recompute)
            own.set_parameters(encoder.parameters())
            for layer in own.layers:
                residual = layer.attention
                residual.branch = ParallelSelfAttention(residual.branch, *conjugate_pair(c), c)
            found.append(step(own, x, dy, None)[0])
        return found

    for plain, recomputed in on_threads(2, work):
        assert all(np.array_equal(recomputed[name], plain[name]) for name in plain)
