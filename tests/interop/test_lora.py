import json

import numpy as np
import pytest
from helpers.witnesses import normal, randomise
from safetensors.numpy import load_file, save_file

from transformer_core.interop import rows_of
from transformer_core.interop.lora import CONFIG, TENSORS, load_adapter, save_adapter
from transformer_core.interop.rows import in_their_layout
from transformer_core.layers import AttentionSpec, EncoderLayer, LayerSpec, NormSpec, add_lora
from transformer_core.layers.lora import lora_layers
from transformer_core.models import BertEncoder, Gpt, StackSpec

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
        ({"lora_alpha": 1e400}, "lora_alpha: expected a positive number, got inf"),
        ({"lora_alpha": True}, "lora_alpha: expected a positive number, got True"),
        ({"use_rslora": "false"}, "use_rslora: expected false, got 'false'"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights: expected true, got 'pissa'"),
        ({"layer_replication": [[0, 1], [0, 1]]}, "layer_replication: expected null, got"),
        ({"use_qalora": True}, "use_qalora: expected null, got True"),
        ({"alora_invocation_tokens": [1]}, "alora_invocation_tokens: expected null, got"),
        ({"of_tomorrow": None}, "setting: expected one of .*, got 'of_tomorrow'"),
    ],
)
def test_another_kind_of_adapter_is_named_and_changes_nothing(adapted, tmp_path, settings, message):
    save_adapter(tmp_path, adapted)
    change(tmp_path, **settings)
    model = block()
    with pytest.raises(ValueError, match=message):
        load_adapter(tmp_path, model)
    assert not lora_layers(model)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda b: b * np.nan, "hidden.lora_B.weight: expected finite numbers"),
        (lambda b: b.astype(np.int8), "hidden.lora_B.weight: expected floating-point numbers, got"),
        (lambda b: b + 1e300, "hidden.lora_B.weight: expected finite numbers of float32"),
    ],
)
def test_numbers_that_are_no_finite_floats_here_are_named(adapted, tmp_path, change, message):
    save_adapter(tmp_path, adapted)
    tensors = load_file(tmp_path / TENSORS)
    name = f"{PREFIX}feed_forward.branch.hidden.lora_B.weight"
    save_file(tensors | {name: change(tensors[name])}, tmp_path / TENSORS)
    model = EncoderLayer(LayerSpec(6, 2, 7, "pre"), np.random.default_rng(1))
    with pytest.raises(ValueError, match=message):
        load_adapter(tmp_path, model)
    assert not lora_layers(model)


def published():
    """A BERT and a Gpt whose heads share keys, so that the parts of one matrix differ in width."""
    rng, stack = np.random.default_rng(1), StackSpec(9, 8, 2)
    spec = LayerSpec(8, 2, 10, "post", feed_forward="gelu", dtype="float64")
    bert = BertEncoder(spec, stack, rng, 2, True, False)
    attention = AttentionSpec(4, 6, 6, False, 2, "rotary_halves")
    norm = NormSpec("rms_norm")
    spec = LayerSpec(8, attention, 10, "pre", norm, "swiglu", dtype="float64")
    return {"bert": randomise(bert, rng), "llama": randomise(Gpt(spec, stack, rng), rng)}


PARTS = {
    "bert": ["self.query", "self.value", "intermediate.dense"],
    "llama": ["self_attn.q_proj", "self_attn.v_proj", "mlp.down_proj"],
}


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("family", PARTS)
def test_adapters_of_parts_of_a_matrix_are_one(family, parts, tmp_path, rng):
    model, plain = published()[family], published()[family]
    ends = tuple(PARTS[family][3 - parts :])
    rows = [row for row in rows_of(model) if row.theirs.removesuffix(".weight").endswith(ends)]
    rows = [row for row in rows if row.theirs.endswith("weight")]
    assert len(rows) == 2 * parts
    matrices = in_their_layout(rows_of(plain), plain.parameters())
    tensors = {}
    for row in rows:
        a, b = normal(rng, (2, row.shape[1])), normal(rng, (row.shape[0], 2))
        name = row.theirs.removesuffix(".weight")
        tensors |= {f"{PREFIX}{name}.lora_A.weight": a, f"{PREFIX}{name}.lora_B.weight": b}
        matrices[row.theirs][...] += 3 / 2 * b @ a
    save_file(tensors, tmp_path / TENSORS)
    settings = {"peft_type": "LORA", "r": 2, "lora_alpha": 3}
    (tmp_path / CONFIG).write_text(json.dumps(settings))
    load_adapter(tmp_path, model, rows_of(model))
    ids = np.array([[3, 0, 5], [7, 7, 1]])
    context = {"segment_ids": ids % 2} if family == "bert" else {}
    expected, _ = plain.forward(ids, **context)
    np.testing.assert_allclose(model.forward(ids, **context)[0], expected, atol=1e-12)


def test_an_adapter_of_a_whole_matrix_is_several_that_share_a(tmp_path, rng):
    models = published()
    for family, model in models.items():
        rows = rows_of(model)
        add_lora(model, ["query_key_value"], 2, 3.0, rng)
        randomise(model, rng)
        save_adapter(tmp_path / family, model, rows)
        again = published()[family]
        load_adapter(tmp_path / family, again, rows)
        for name, array in model.parameters().items():
            assert np.array_equal(again.parameters()[name], array), name
    tensors = load_file(tmp_path / "bert" / TENSORS)
    start = f"{PREFIX}encoder.layer.1.attention.self"
    for part in "key", "value":
        a, query = tensors[f"{start}.{part}.lora_A.weight"], f"{start}.query.lora_A.weight"
        assert np.array_equal(a, tensors[query])
        assert tensors[f"{start}.{part}.lora_B.weight"].shape == (8, 2)


def test_a_layer_without_a_row_is_named(adapted, tmp_path):
    with pytest.raises(
        ValueError, match="names: expected one of attention.branch.output, got none"
    ):
        save_adapter(tmp_path, adapted, [])


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
