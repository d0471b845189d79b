"""Recordings hold what the models compute, and files of them come back as they were."""

import struct

import numpy as np
import pytest
from interop.models import FAMILIES, inputs, make

from transformer_core.interop import read_recording, record, write_recording
from transformer_core.ops import round_to

every_family = pytest.mark.parametrize("family", FAMILIES)


@every_family
def test_a_recording_has_the_loss_and_the_gradients_of_the_model(family, rng):
    model, given = make(family), inputs(family, rng)
    values = record(model, **given)
    if "attention_mask" in given:
        given["keep"] = given.pop("attention_mask").astype(bool)[:, None, None]
    if family == "encoder":
        cotangents = given.pop("targets")
        h, cache = model.forward(**given)
        loss, (_, grads) = (h * cotangents).sum(), model.backward(cotangents, cache)
    else:
        if family == "bert":
            given["masked"] = given.pop("weights").astype(bool)
        loss, grads = model.loss_and_gradients(**given)
    np.testing.assert_allclose(values["loss"], loss, rtol=1e-13)
    names = [name for name in values if name.startswith("gradient.parameter.")]
    recorded = sum((values[name] ** 2).sum() for name in names)
    np.testing.assert_allclose(recorded, sum((grad**2).sum() for grad in grads.values()))
    assert {name.removeprefix("gradient.") for name in names} <= values.keys()


@every_family
def test_the_weights_are_those_that_made_the_context(family, rng):
    values = record(make(family), **inputs(family, rng))
    for i in range(2):
        p = f"layers.{i}.attention."
        weights, value = values[p + "weights"], values[p + "value"]
        context = weights @ value.repeat(weights.shape[1] // value.shape[1], 1)
        context = context.swapaxes(1, 2).reshape(values[p + "context"].shape)
        np.testing.assert_allclose(values[p + "context"], context, atol=1e-12)


def test_the_model_is_left_as_it_is(rng):
    model = make("llama")
    record(model, **inputs("llama", rng))
    assert "forward" not in vars(model.decoder.layers[0].attention)


def test_other_models_cannot_be_recorded(rng):
    with pytest.raises(ValueError, match="model: expected one of the class Gpt, got dict"):
        record({}, **inputs("llama", rng))


def test_a_file_comes_back(tmp_path, rng):
    values = record(make("qwen", np.float32), **inputs("qwen", rng))
    write_recording(tmp_path / "one.safetensors", values)
    back, units = read_recording(tmp_path / "one.safetensors")
    assert back.keys() == values.keys()
    for name, value in values.items():
        np.testing.assert_array_equal(back[name], value)
        assert units[name] == (0 if value.dtype.kind == "i" else np.finfo(value.dtype).eps)


def raw(path, dtype, shape, data):
    """Write a file of one tensor without any library."""
    header = f'{{"x":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[0,{len(data)}]}}}}'
    header += " " * (-len(header) % 8)
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode() + data)
    return path


def test_bfloat16_is_widened(tmp_path, rng):
    x = round_to(rng.normal(size=(3, 4)).astype(np.float32), "bfloat16")
    halves = (x.view(np.uint32) >> 16).astype("<u2")
    values, units = read_recording(raw(tmp_path / "x", "BF16", [3, 4], halves.tobytes()))
    np.testing.assert_array_equal(values["x"], x)
    assert units["x"] == 2**-7


def test_bfloat16_in_wider_numbers_is_recognised(tmp_path, rng):
    x = round_to(rng.normal(size=(3, 4)).astype(np.float32), "bfloat16")
    _, units = read_recording(raw(tmp_path / "x", "F32", [3, 4], x.tobytes()))
    assert units["x"] == 2**-7


@pytest.mark.parametrize(
    "dtype, shape, data, message",
    [
        ("F32", [2], struct.pack("<2f", 1, np.nan), "x: expected finite numbers, got NaN"),
        ("F8_E4M3", [2], b"ab", "x: expected numbers"),
        ("F32", [0], b"", "x: expected numbers, got shape"),
    ],
)
def test_malformed_values(tmp_path, dtype, shape, data, message):
    with pytest.raises(ValueError, match=message):
        read_recording(raw(tmp_path / "x", dtype, shape, data))
