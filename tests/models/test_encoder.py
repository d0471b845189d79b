import numpy as np
import pytest
from cases import ENCODERS
from hypothesis import given
from hypothesis import strategies as st
from witnesses import (
    assert_close,
    causal,
    generators,
    normal,
    padding,
    randomise,
    sizes,
)

from transformer_core.gradient_check import central_difference, gradient_error
from transformer_core.models import Encoder

variants = st.fixed_dictionaries(
    {
        "norm": st.sampled_from(["post", "pre"]),
        "final_norm": st.booleans(),
        "readout": st.booleans(),
    }
)


def draw(rng, batch, length, heads, width, variant):
    encoder = Encoder(
        2, heads * width, heads, width + 3, **variant, rng=rng, dtype=np.float64
    )
    return randomise(encoder, rng), rng.normal(size=(batch, length, heads * width))


@pytest.mark.equation("eq:chain-backward")
@pytest.mark.parametrize("variant", ENCODERS)
def test_gradients_agree_with_the_witnesses(prove, variant):
    prove.layer(ENCODERS[variant])


@given(generators, sizes, sizes, sizes, sizes, variants)
def test_the_outputs_follow_the_order_of_the_tokens(
    rng, batch, length, heads, width, variant
):
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
def test_a_causal_output_does_not_see_the_future(
    rng, batch, length, heads, width, variant
):
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
    with_padding, padded_cache = encoder.forward(
        padded, padding([length] * batch, 2 * length)
    )
    assert np.allclose(with_padding[:, :length], y, rtol=1e-7, atol=1e-7)
    dy = rng.normal(size=padded.shape)
    dy[:, length:] = 0
    dx, grads = encoder.backward(dy[:, :length], cache)
    padded_dx, padded_grads = encoder.backward(dy, padded_cache)
    assert (padded_dx[:, length:] == 0).all()
    assert_close({"x": padded_dx[:, :length]} | padded_grads, {"x": dx} | grads, 1e-6)


@given(generators, sizes, sizes, sizes, sizes, variants)
def test_sequences_of_a_batch_do_not_see_each_other(
    rng, batch, length, heads, width, variant
):
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


@given(generators, sizes, sizes, sizes, sizes, variants)
def test_a_query_without_keys_makes_no_nan(rng, batch, length, heads, width, variant):
    encoder, x = draw(rng, batch, length, heads, width, variant)
    keep = rng.random((batch, 1, length, length)) < 0.7
    keep[:, :, rng.integers(length)] = False
    with np.errstate(invalid="raise", divide="raise"):
        y, cache = encoder.forward(x, keep)
        dx, grads = encoder.backward(rng.normal(size=y.shape), cache)
    assert all(np.isfinite(array).all() for array in (y, dx, *grads.values()))


def test_layers_run_in_order_then_the_norm_then_the_readout(rng):
    variant = {"norm": "pre", "final_norm": True, "readout": True}
    encoder, x = draw(rng, 2, 5, 2, 3, variant)
    expected = x
    for part in [*encoder.layers, encoder.final_norm, encoder.readout]:
        expected, _ = part.forward(expected)
    assert np.array_equal(encoder.forward(x)[0], expected)


@pytest.mark.parametrize("final_norm", [False, True])
@pytest.mark.parametrize("readout", [False, True])
def test_only_the_parts_asked_for_have_parameters(rng, final_norm, readout):
    encoder = Encoder(
        3, 4, 2, 5, norm="pre", final_norm=final_norm, readout=readout, rng=rng
    )
    prefixes = {name.split(".")[0] for name in encoder.parameters()}
    expected = {"layer_0", "layer_1", "layer_2"}
    expected |= {"final_norm"} if final_norm else set()
    expected |= {"readout"} if readout else set()
    assert prefixes == expected
    _, cache = encoder.forward(np.ones((1, 2, 4)))
    assert (cache.final_norm is not None) == final_norm
    assert (cache.readout is not None) == readout


def test_parameters_are_float32_unless_told_otherwise(rng):
    encoder = Encoder(1, 4, 2, 5, norm="pre", final_norm=True, readout=True, rng=rng)
    dtypes = {array.dtype for array in encoder.parameters().values()}
    assert dtypes == {np.dtype(np.float32)}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_loss_and_gradients_keep_the_dtype(rng, dtype):
    encoder, x = ENCODERS["Encoder, post, final norm, readout"].draw(rng, dtype)
    loss, grads = encoder.loss_and_gradients(x, normal(rng, x.shape, dtype))
    assert loss.dtype == dtype
    assert {grad.dtype for grad in grads.values()} == {np.dtype(dtype)}


@pytest.mark.parametrize("masked", [False, True])
def test_loss_and_gradients_are_those_of_the_mean_squared_error(rng, masked):
    case = ENCODERS["Encoder, pre, readout"]
    context = case.context if masked else ()
    encoder, x = case.draw(rng, np.float64)
    targets = normal(rng, x.shape)
    loss, grads = encoder.loss_and_gradients(x, targets, *context)
    assert np.isclose(loss, ((encoder.forward(x, *context)[0] - targets) ** 2).mean())
    for name, array in encoder.parameters().items():
        at = rng.choice(array.size, 3, replace=False)
        measured = central_difference(
            lambda _: encoder.loss_and_gradients(x, targets, *context)[0], array, at=at
        )
        scale = 1e-3 * np.linalg.norm(grads[name])
        assert gradient_error(grads[name].flat[at], measured, scale).norm < 1e-7, name


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"layers": 0}, "layers: expected a whole number of at least 1, got 0"),
        ({"heads": 4}, "heads: expected a divisor of the width 6, got 4"),
        ({"width": 6.0}, "width: expected a whole number of at least 1, got 6.0"),
        ({"hidden_width": 0}, "width_out: expected a whole .* got 0"),
        ({"norm": None}, "norm: expected 'post' or 'pre', got None"),
    ],
)
def test_bad_settings_are_named(rng, changed, message):
    settings = {"layers": 2, "width": 6, "heads": 2, "hidden_width": 7, "norm": "pre"}
    with pytest.raises(ValueError, match=message):
        Encoder(**(settings | changed), final_norm=False, readout=True, rng=rng)


@pytest.mark.parametrize("width", [6, np.int64(6)])
@pytest.mark.parametrize(
    "x, message",
    [
        (np.ones((2, 5, 8)), r"x: expected shape \(B, T, 6\), got \(2, 5, 8\)"),
        (np.ones((5, 6)), r"x: expected shape \(B, T, 6\), got \(5, 6\)"),
        (np.ones((0, 5, 6)), r"x: expected at least one element, got shape \(0, 5, 6"),
    ],
)
def test_bad_input_is_named(rng, width, x, message):
    encoder = Encoder(
        1, width, 2, 7, norm="pre", final_norm=False, readout=False, rng=rng
    )
    with pytest.raises(ValueError, match=message):
        encoder.forward(x)


def test_targets_of_another_shape_are_named(rng):
    encoder, x = ENCODERS["Encoder, pre, readout"].draw(rng, np.float64)
    with pytest.raises(ValueError, match=r"target: .* \(2, 5, 6\), got \(2, 5, 1\)"):
        encoder.loss_and_gradients(x, x[..., :1])
