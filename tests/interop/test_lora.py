import json

import numpy as np
import pytest
from helpers.witnesses import normal, randomise
from safetensors.numpy import load_file, save_file

from transformer_core.interop.lora import CONFIG, TENSORS, load_adapter, save_adapter
from transformer_core.layers import EncoderLayer, LayerSpec, add_lora
from transformer_core.layers.lora import lora_layers

NAMES = {"attention.branch.output": "attention.output.dense"}
PREFIX = "base_model.model."


def block():
    rng = np.random.default_rng(1)
    return randomise(EncoderLayer(LayerSpec(6, 2, 7, "pre", dtype=np.float64), rng), rng)


@pytest.fixture
def adapted(rng):
    model = block()
    add_lora(model, ["attention.branch.output", "hidden"], 2, 3.0, rng)
    return randomise(model, rng)


def change(folder, **settings):
    path = folder / CONFIG
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def test_what_is_written_has_the_names_the_layout_and_the_settings_of_peft(adapted, tmp_path):
    save_adapter(tmp_path / "new", adapted, NAMES, "a-model")
    config = json.loads((tmp_path / "new" / CONFIG).read_text())
    assert config["peft_type"] == "LORA" and config["bias"] == "none"
    assert (config["r"], config["lora_alpha"], config["use_rslora"]) == (2, 3, False)
    assert config["base_model_name_or_path"] == "a-model"
    hidden, output = "feed_forward.branch.hidden", "attention.output.dense"
    assert config["target_modules"] == [output, hidden]
    tensors = load_file(tmp_path / "new" / TENSORS)
    assert {name: tensor.shape for name, tensor in tensors.items()} == {
        f"{PREFIX}{output}.lora_A.weight": (2, 6),
        f"{PREFIX}{output}.lora_B.weight": (6, 2),
        f"{PREFIX}{hidden}.lora_A.weight": (2, 6),
        f"{PREFIX}{hidden}.lora_B.weight": (7, 2),
    }
    layer = lora_layers(adapted)["feed_forward.branch.hidden"]
    assert np.array_equal(tensors[f"{PREFIX}{hidden}.lora_B.weight"], layer.b.T)


def test_what_is_read_is_what_was_written(adapted, tmp_path, rng):
    save_adapter(tmp_path, adapted, NAMES)
    again, x = block(), normal(rng, (2, 5, 6))
    load_adapter(tmp_path, again, NAMES)
    assert np.array_equal(again.forward(x)[0], adapted.forward(x)[0])
    assert again.parameters().keys() == adapted.parameters().keys()


def test_the_scale_of_rslora_is_alpha_over_the_root_of_r(adapted, tmp_path):
    save_adapter(tmp_path, adapted)
    change(tmp_path, use_rslora=True)
    model = block()
    load_adapter(tmp_path, model)
    scales = {layer.scale for layer in lora_layers(model).values()}
    assert np.allclose([*scales], 3 / 2**0.5)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"peft_type": "LOHA"}, "expected the settings of LoRA"),
        ({"use_dora": True}, "use_dora: expected null, got True"),
        ({"bias": "all"}, 'bias: expected "none", got'),
        ({"rank_pattern": {"hidden": 3}}, "rank_pattern: expected null"),
        ({"r": 3}, "expected shape"),
        ({"r": None}, "r: expected a positive number, got None"),
        ({"lora_alpha": "3"}, "lora_alpha: expected a positive number, got '3'"),
    ],
)
def test_another_kind_of_adapter_is_named_and_changes_nothing(adapted, tmp_path, settings, message):
    save_adapter(tmp_path, adapted)
    change(tmp_path, **settings)
    model = block()
    with pytest.raises(ValueError, match=message):
        load_adapter(tmp_path, model)
    assert not lora_layers(model)


def test_tensors_that_fit_no_layer_are_named(adapted, tmp_path):
    save_adapter(tmp_path, adapted, NAMES)
    with pytest.raises(ValueError, match="attention.output.dense.lora_A.weight: expected an A or"):
        load_adapter(tmp_path, block())
    tensors = load_file(tmp_path / TENSORS)
    tensors.pop(f"{PREFIX}attention.output.dense.lora_B.weight")
    save_file(tensors, tmp_path / TENSORS)
    with pytest.raises(ValueError, match="expected A and B of each layer"):
        load_adapter(tmp_path, block(), NAMES)
    (tmp_path / TENSORS).write_bytes(b"no tensors")
    with pytest.raises(ValueError, match="expected a whole file"):
        load_adapter(tmp_path, block(), NAMES)
    (tmp_path / CONFIG).unlink()
    with pytest.raises(ValueError, match=f"{CONFIG}: expected a file"):
        load_adapter(tmp_path, block(), NAMES)


def test_a_model_without_adapters_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="of one rank and one alpha, got none"):
        save_adapter(tmp_path, block())
