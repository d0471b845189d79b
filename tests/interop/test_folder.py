"""Folders of weights that are whole, and all the ways in which they are not."""

import json
import re
import sys
import tracemalloc
import warnings
from fnmatch import fnmatch
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.witnesses import randomise
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordPiece

from transformer_core.interop import load, save, weights
from transformer_core.layers import AttentionSpec, LayerSpec, NormSpec
from transformer_core.models import Bert, BertEncoder, Gpt, StackSpec

STACK = StackSpec(20, 12, 2)
WEIGHTS = "model.safetensors"
HEADS = AttentionSpec(4, bias=False, key_heads=2, transform="rotary_halves")
NORMALISED = AttentionSpec(
    4, 6, 6, key_heads=2, transform={"kind": "qk_norm_rotary_halves", "eps": 1e-5}
)


def modern(attention=HEADS, tied=True, **others):
    settings = {"norm": NormSpec("rms_norm"), "feed_forward": "swiglu"} | others
    return Gpt(LayerSpec(8, attention, 12, "pre", **settings), STACK, rng(), tied)


def bert(**others):
    spec = LayerSpec(8, 2, 12, "post", NormSpec(eps=1e-12), "gelu", 0.1)
    settings = {"tied": True, "segments": 2, "embedding_norm": True}
    settings |= {"final_norm": False, "transform": True}
    return Bert(spec, STACK, rng(), **settings | others)


def rng():
    return np.random.default_rng(0)


def assert_same_parameters(found, expected):
    assert found.parameters().keys() == expected.parameters().keys()
    for name, array in expected.parameters().items():
        assert np.array_equal(found.parameters()[name], array), name
        assert found.parameters()[name].dtype == array.dtype


IDS = np.array([[3, 0, 5], [7, 7, 1]])


def run(name, model):
    """Return the output of a model, and its cache."""
    context = {"segment_ids": np.array([[0, 1, 1], [0, 0, 1]])} if "bert" in name else {}
    return model.forward(IDS, **context)


MODELS = {
    "llama": modern(),
    "llama, not tied": modern(tied=False),
    "qwen3": modern(NORMALISED),
    "gpt2": Gpt(LayerSpec(8, 2, 12, "pre", feed_forward="gelu_tanh"), STACK, rng()),
    "bert": bert(),
    "bert, encoder": BertEncoder(bert().spec, STACK, rng(), 2, True, False, pooler=True),
}
for each in MODELS.values():
    randomise(each, rng())


@pytest.mark.parametrize("name", MODELS)
def test_what_is_loaded_is_what_was_saved(name, tmp_path):
    model = MODELS[name]
    save(model, None, tmp_path / "folder")
    found, tokenizer = load(tmp_path / "folder")
    assert tokenizer is None and type(found) is type(model)
    assert_same_parameters(found, model)
    assert found.spec.dtype == "float32"
    assert np.array_equal(run(name, found)[0], run(name, model)[0])
    save(found, None, tmp_path / "again")
    for file in (WEIGHTS, "config.json"):
        assert (tmp_path / "again" / file).read_bytes() == (tmp_path / "folder" / file).read_bytes()


@pytest.mark.parametrize("name", MODELS)
def test_what_is_loaded_can_be_trained_in_place_and_recomputed(name, tmp_path):
    save(MODELS[name], None, tmp_path / "folder")
    model, _ = load(tmp_path / "folder")
    lean, _ = load(tmp_path / "folder", recompute=True)
    y, cache = run(name, model)
    found, lean_cache = run(name, lean)
    assert held(lean_cache) < 0.8 * held(cache)
    assert np.array_equal(found, y)
    dy = rng().standard_normal(y.shape).astype(np.float32)
    grads, own = gradients(model.backward(dy, cache)), gradients(lean.backward(dy, lean_cache))
    for key, array in grads.items():
        assert np.array_equal(own[key], array), key
        model.parameters()[key] -= array  # raises where an array cannot be written


def gradients(found):
    return found[-1] if isinstance(found, tuple) else found


def held(cache):
    """Return the bytes of all arrays of a cache."""
    if isinstance(cache, np.ndarray):
        return cache.nbytes
    return sum(map(held, cache)) if isinstance(cache, tuple) else 0


def test_reading_holds_few_arrays_beside_the_model(tmp_path):
    spec = LayerSpec(128, 2, 256, "pre", feed_forward="gelu_tanh")
    save(Gpt(spec, StackSpec(11, 12, 12), rng()), None, tmp_path / "folder")
    load(tmp_path / "folder")  # what is imported stays
    tracemalloc.start()
    model, _ = load(tmp_path / "folder")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    sizes = [array.nbytes for array in model.parameters().values()]
    assert sum(sizes) < most < sum(sizes) + 3 * max(sizes)


def test_an_array_is_read_in_pieces(tmp_path, monkeypatch):
    gpt = modern()
    save(gpt, None, tmp_path / "folder")
    counts, read = [], weights.Weights.read

    def counted(self, name, first, count):
        counts.append(count)
        return read(self, name, first, count)

    monkeypatch.setattr(weights, "PIECE", 20)
    monkeypatch.setattr(weights.Weights, "read", counted)
    model, _ = load(tmp_path / "folder")
    assert_same_parameters(model, gpt)
    assert max(counts) == 16  # two rows of the width 8


def test_a_bert_without_the_parts_of_the_published_one_is_the_same_function(tmp_path):
    spec = LayerSpec(8, AttentionSpec(2, bias=False), 12, "post", feed_forward="gelu_tanh")
    model = Bert(spec, STACK, rng(), tied=True, embedding_norm=True)
    randomise(model, rng())
    save(model, None, tmp_path / "bert")
    found, _ = load(tmp_path / "bert", "float64")
    given = {name: array.astype(np.float64) for name, array in model.parameters().items()}
    model.set_parameters(given)
    expected, _ = model.forward(IDS)
    logits, _ = found.forward(IDS, segment_ids=np.zeros_like(IDS))
    np.testing.assert_allclose(logits, expected, atol=1e-12)


@pytest.fixture
def folder(tmp_path):
    save(modern(tied=False), None, tmp_path / "folder")
    return tmp_path / "folder"


def config(folder, **changes):
    path = folder / "config.json"
    settings = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in settings.items() if v != "gone"}))


def arrays(folder, change):
    found = load_file(folder / WEIGHTS)
    change(found)
    save_file(found, folder / WEIGHTS)


def raw(folder, change):
    path = folder / WEIGHTS
    path.write_bytes(change(path.read_bytes()))


def headed(header, data=b"\0" * 8):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


ONE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
BYTES = {  # what becomes of the file of weights
    "truncated": lambda whole: whole[:-1],
    "truncated in its header": lambda whole: whole[:40],
    "empty": lambda whole: b"",
    "header too long": lambda whole: b"\xff" * 7 + b"\x7f" + whole[8:],
    "no JSON": lambda whole: headed(b"{" * 50),
    "overlapping": lambda whole: headed({"a": ONE, "b": ONE}),
    "outside the file": lambda whole: headed({"a": ONE | {"data_offsets": [0, 1 << 60]}}),
    "larger than its bytes": lambda whole: headed({"a": ONE | {"shape": [1 << 40, 1 << 40]}}),
}
SETTINGS = {  # what is changed in config.json, and what is said of it
    "another architecture": (
        {"architectures": ["MistralForCausalLM"]},
        "architectures: expected one of .*, got 'MistralForCausalLM'",
    ),
    "no architecture": ({"architectures": "gone"}, "architectures: .* got None"),
    "unknown activation": (
        {"hidden_act": "quick_gelu"},
        "hidden_act: expected one of .*, got 'quick_gelu'",
    ),
    "another width": ({"hidden_size": 16}, "expected the shape"),
    "width no number": ({"hidden_size": "8"}, "config.json: hidden_size: expected"),
    "heads that share badly": ({"num_key_value_heads": 3}, "expected the shape|key"),
    "more layers": ({"num_hidden_layers": 3}, "expected 'model.layers.2"),
    "fewer layers": ({"num_hidden_layers": 1}, "got 'model.layers.1"),
    "other rotary positions": (
        {"rope_parameters": {"rope_type": "yarn", "factor": 4.0}},
        "rope_type: expected one of default, linear, llama3, got 'yarn'",
    ),
    "biases that are not there": ({"mlp_bias": True}, "mlp_bias: expected False"),
    "another model type": (
        {"model_type": "mistral"},
        "config.json: model_type: expected 'llama', got 'mistral'",
    ),
    "windows": (
        {"use_sliding_window": True, "sliding_window": 4},
        "config.json: use_sliding_window: expected False, got True",
    ),
    "another base of the rotation": (
        {"rope_theta": 5e5},
        "rope_parameters: rope_theta: expected 500000.0, as in rope_theta, got 10000.0",
    ),
    "another scaling of the rotation": (
        {"rope_scaling": {"type": "linear", "factor": 2.0}},
        "config.json: rope_parameters: rope_type: expected 'linear', .* got 'default'",
    ),
    "a rotation of a part": (
        {"partial_rotary_factor": 0.5},
        "config.json: partial_rotary_factor: expected 1.0, got 0.5",
    ),
}
DAMAGE = {
    "eight bits": (
        lambda f: raw(f, lambda b: headed({"a": ONE | {"dtype": "F8_E4M3", "shape": [8]}})),
        "a: expected one of F64, F32, F16, BF16, got F8_E4M3",
    ),
    "a name too few": (
        lambda f: arrays(f, lambda a: a.pop("model.norm.weight")),
        "expected 'model.norm.weight', got none",
    ),
    "a name too many": (
        lambda f: arrays(f, lambda a: a.update(extra=np.ones(2, np.float32))),
        "got 'extra', which LlamaForCausalLM does not have",
    ),
    "another shape": (
        lambda f: arrays(f, lambda a: a.update({"model.norm.weight": np.ones(9, np.float32)})),
        r"model.norm.weight: expected the shape \(8,\), got \(9,\)",
    ),
    "not finite": (
        lambda f: arrays(f, lambda a: a["model.norm.weight"].fill(np.nan)),
        "model.norm.weight: expected finite numbers",
    ),
    "no config": (lambda f: (f / "config.json").unlink(), "expected config.json, got none"),
    "config no JSON": (lambda f: (f / "config.json").write_text("{"), "expected whole JSON"),
    "config a list": (lambda f: (f / "config.json").write_text("[]"), "expected settings by name"),
    "no weights": (lambda f: (f / WEIGHTS).unlink(), "expected model.safetensors .*, got none"),
    "a pickle": (
        lambda f: (f / WEIGHTS).rename(f / "pytorch_model.bin"),
        "got pytorch_model.bin, a pickle: reading it can run code",
    ),
    "tokenizer no JSON": (
        lambda f: (f / "tokenizer.json").write_text("{"),
        "tokenizer.json: expected whole JSON",
    ),
    "a token no number": (
        lambda f: (f / "generation_config.json").write_text('{"eos_token_id": [2, "x"]}'),
        "eos_token_id: expected a whole number of at least -1, got 'x'",
    ),
}
for case, damage in BYTES.items():
    DAMAGE[case] = partial(raw, change=damage), "whole safetensors file"
for case, (changes, said) in SETTINGS.items():
    DAMAGE[case] = partial(config, **changes), said


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named_in_one_line(folder, name):
    damage, message = DAMAGE[name]
    damage(folder)
    with pytest.raises(ValueError, match=message) as raised:
        load(folder)
    assert "\n" not in str(raised.value)


def refused_in_little_memory(folder, message=None):
    tracemalloc.start()
    with pytest.raises(ValueError, match=message):
        load(folder)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5e6


@pytest.mark.parametrize("damage", ["another width", "larger than its bytes"])
def test_memory_is_bounded_by_the_file(folder, damage):
    DAMAGE[damage][0](folder)
    config(folder, vocab_size=10**9, hidden_size=10**6, num_attention_heads=4)
    refused_in_little_memory(folder)


@pytest.mark.parametrize("name", MODELS)
def test_there_are_no_more_layers_than_arrays(name, tmp_path):
    save(MODELS[name], None, tmp_path / "folder")
    layers = "n_layer" if name == "gpt2" else "num_hidden_layers"
    config(tmp_path / "folder", **{layers: 10**9})
    names = len(load_file(tmp_path / "folder" / WEIGHTS))
    message = f"config.json: {layers}: expected at most {names}, got 1000000000"
    refused_in_little_memory(tmp_path / "folder", message)


def test_numbers_that_the_dtype_of_the_model_cannot_hold_are_refused(tmp_path):
    model = modern(dtype="float64")
    model.tokens.table[0, 0] = 1e300
    save(model, None, tmp_path / "folder")
    load(tmp_path / "folder")
    with pytest.raises(ValueError, match="embed_tokens.weight: expected finite numbers of float32"):
        load(tmp_path / "folder", "float32")


WINDOWS = {
    "use_sliding_window": True,
    "sliding_window": 4,
    "max_window_layers": 1,
    "layer_types": ["full_attention", "sliding_attention"],
}
SCALED = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 6,
}
FUZZ = None, "x", [1], {"a": 1}, -1, 1e400, 10**400, True


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("llama", marks=pytest.mark.thorough),
        pytest.param("llama, not tied", marks=pytest.mark.thorough),
        pytest.param("qwen3", marks=pytest.mark.thorough),
        pytest.param("gpt2", marks=pytest.mark.thorough),
        "bert",
        pytest.param("bert, encoder", marks=pytest.mark.thorough),
    ],
)
def test_every_setting_is_checked(name, tmp_path):
    save(MODELS[name], None, tmp_path / "folder")
    path = tmp_path / "folder" / "config.json"
    settings = json.loads(path.read_text())
    if name == "qwen3":
        settings |= WINDOWS
    if "rope_parameters" in settings:
        settings |= {"rope_parameters": SCALED, "rope_scaling": None, "rope_theta": None}
    path.write_text(json.dumps(settings))
    load(tmp_path / "folder")
    nested = settings.get("rope_parameters", {})
    for setting in settings.keys() | nested.keys():
        for value in FUZZ:
            changed = settings | {setting: value}
            if setting in nested:
                changed = settings | {"rope_parameters": nested | {setting: value}}
            path.write_text(json.dumps(changed))
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    load(tmp_path / "folder")
            except ValueError as error:
                text = str(error)
                # What is legal may not fit the arrays.
                arrays = value in (None, True) and re.search("expected the shape|got none", text)
                assert "\n" not in text and (setting in text or arrays), (setting, value, text)


def test_null_says_nothing_of_the_rotation(folder):
    expected, _ = load(folder)
    config(folder, rope_theta=None, rope_parameters=None, model_type="gone")
    assert load(folder)[0].spec == expected.spec
    config(folder, rope_parameters={"rope_type": None, "rope_theta": 10000})
    assert load(folder)[0].spec == expected.spec


def sharded(folder, **map_changes):
    found = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    places = {}
    for i, (name, array) in enumerate(found.items()):
        file = f"model-{i % 2 + 1:05}-of-00002.safetensors"
        places.setdefault(file, {})[name] = array
    for file, content in places.items():
        save_file(content, folder / file)
    listed = {name: file for file, content in places.items() for name in content} | map_changes
    index = {"metadata": {}, "weight_map": {k: v for k, v in listed.items() if v}}
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps(index))


def test_shards_are_read(folder):
    expected, _ = load(folder)
    sharded(folder)
    found, _ = load(folder)
    assert_same_parameters(found, expected)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"model.norm.weight": "elsewhere.safetensors"}, "expected the file elsewhere.safetensors"),
        ({"model.norm.weight": "../other.safetensors"}, "weight_map of names of files"),
        (
            {"extra": "model-00001-of-00002.safetensors"},
            "'extra' is in no shard, expected in model-00001-of-00002.safetensors",
        ),
        (
            {"model.norm.weight": None},
            "'model.norm.weight' is in model-0000.-of-00002.safetensors, expected in none",
        ),
        (
            {
                "lm_head.weight": "model-00002-of-00002.safetensors",
                "model.embed_tokens.weight": "model-00001-of-00002.safetensors",
            },
            "is in model-0000(.)-of-00002.safetensors, expected in model-0000(?!\\1)",
        ),
    ],
)
def test_an_index_that_does_not_fit_its_shards_is_named(folder, changes, message):
    sharded(folder, **changes)
    with pytest.raises(ValueError, match=message):
        load(folder)


def test_an_array_in_two_shards_is_named(folder):
    sharded(folder)
    path = folder / "model-00001-of-00002.safetensors"
    other = folder / "model-00002-of-00002.safetensors"
    name, array = next(iter(load_file(path).items()))
    save_file(load_file(other) | {name: array}, other)
    with pytest.raises(ValueError, match=f"expected '{name}' in one file, got two"):
        load(folder)


def test_what_is_no_folder_and_no_id_is_refused(tmp_path):
    for wrong in (tmp_path / "none", "no such folder", tmp_path / "a" / "b" / "c"):
        with pytest.raises(ValueError, match="expected a folder, or an id of the hub"):
            load(wrong)


def test_older_names_and_buffers_are_read(tmp_path):
    save(bert(), None, tmp_path / "bert")

    def older(found):
        for name in [*found]:
            new = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            found[new.replace("LayerNorm.bias", "LayerNorm.beta")] = found.pop(name)
        found["bert.embeddings.position_ids"] = np.arange(12)[np.newaxis]
        found["cls.predictions.decoder.bias"] = found["cls.predictions.bias"]

    expected, _ = load(tmp_path / "bert")
    arrays(tmp_path / "bert", older)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, _ = load(tmp_path / "bert")
    assert_same_parameters(found, expected)


def test_what_an_architecture_has_no_use_for_is_left_out_with_a_warning(tmp_path):
    save(bert(), None, tmp_path / "bert")
    pooler = {"bert.pooler.dense.bias": np.ones(8, np.float32)}
    arrays(tmp_path / "bert", lambda found: found.update(pooler))
    with pytest.warns(UserWarning, match="left out 'bert.pooler.dense.bias'"):
        load(tmp_path / "bert")


def test_a_file_without_the_beginning_of_its_names_is_read(tmp_path):
    save(MODELS["gpt2"], None, tmp_path / "gpt2")

    def shorter(found):
        for name in [*found]:
            found[name.removeprefix("transformer.")] = found.pop(name)
        found["h.0.attn.bias"] = np.tri(12, dtype=np.float32)[np.newaxis, np.newaxis]

    arrays(tmp_path / "gpt2", shorter)
    found, _ = load(tmp_path / "gpt2")
    assert_same_parameters(found, MODELS["gpt2"])


def test_a_head_that_is_not_there_is_the_table_with_a_warning(folder):
    arrays(folder, lambda found: found.pop("lm_head.weight"))
    with pytest.warns(UserWarning, match="lm_head.weight is missing"):
        model, _ = load(folder)
    assert "readout.weight" not in model.parameters()


def test_a_head_that_is_not_the_table_is_believed_with_a_warning(folder):
    config(folder, tie_word_embeddings=True)
    with pytest.warns(UserWarning, match="lm_head.weight is not the table"):
        model, _ = load(folder)
    assert "readout.weight" in model.parameters()


def test_a_table_that_is_stored_twice_is_one(tmp_path):
    save(modern(), None, tmp_path / "llama")
    table = "model.embed_tokens.weight"
    arrays(tmp_path / "llama", lambda found: found.update({"lm_head.weight": found[table]}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model, _ = load(tmp_path / "llama")
    assert "readout.weight" not in model.parameters()


UNPUBLISHED = {
    "rows for pairs": (
        Gpt(LayerSpec(8, 2, 12, "pre"), STACK, rng(), pairs=5),
        "expected no rows for pairs of tokens, .* got 5",
    ),
    "pairs": (
        modern(AttentionSpec(4, transform="rotary")),
        "expected one of rotary_halves, .* got 'rotary'",
    ),
    "LayerNorm": (modern(norm=NormSpec("layer_norm")), "expected Pre-RMSNorm"),
    "post": (
        Gpt(LayerSpec(8, HEADS, 12, "post", NormSpec("rms_norm"), "swiglu"), STACK, rng()),
        "expected Pre-RMSNorm",
    ),
    "no gate": (modern(feed_forward="silu"), "feed_forward: expected one of .* got 'silu'"),
    "widths": (modern(AttentionSpec(4, 2, 4, transform="rotary_halves")), "heads of one width"),
    "eps": (
        modern(AttentionSpec(4, transform="qk_norm_rotary_halves")),
        "expected one eps in all norms",
    ),
    "dropout": (modern(dropout=0.1), "expected no dropout"),
    "bert, not tied": (bert(tied=False), "expected an output layer that shares the table"),
    "bert, no norm": (bert(embedding_norm=False), "expected a norm after the embeddings"),
    "bert, two norms": (bert(final_norm=True), "expected a transform before the output layer"),
    "no model": ("gpt", "expected a Bert, BertEncoder or Gpt, got str"),
}


@pytest.mark.parametrize("name", UNPUBLISHED)
def test_what_the_published_models_do_not_have_is_refused(name, tmp_path):
    model, message = UNPUBLISHED[name]
    with pytest.raises(ValueError, match=message):
        save(model, None, tmp_path / "folder")
    assert not [*tmp_path.iterdir()]


def test_nothing_is_overwritten(folder):
    before = (folder / WEIGHTS).read_bytes()
    with pytest.raises(ValueError, match="expected a new or an empty folder"):
        save(MODELS["llama"], None, folder)
    assert (folder / WEIGHTS).read_bytes() == before


def test_numbers_that_a_dtype_cannot_hold_are_refused(tmp_path):
    model = modern()
    model.tokens.table[0, 0] = 1e6
    with pytest.raises(ValueError, match="expected numbers that float16 can hold"):
        save(model, None, tmp_path / "folder", "float16")
    assert not [*tmp_path.iterdir()]
    save(model, None, tmp_path / "folder", "bfloat16")


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match="tokenizer: expected at most 20 tokens, got 21"):
        save(modern(), pieces(21), tmp_path / "folder")
    save(modern(), pieces(20), tmp_path / "folder")
    pieces(21).save(str(tmp_path / "folder" / "tokenizer.json"))
    with pytest.raises(ValueError, match="tokenizer.json: expected at most 20 tokens, got 21"):
        load(tmp_path / "folder")


def pieces(number):
    return Tokenizer(WordPiece({f"w{i}": i for i in range(number)}, unk_token="w0"))


PRECOMPILED = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
HOSTILE = {
    "a table of a size that it says": (
        {"normalizer": PRECOMPILED | {"precompiled_charsmap": "/////w=="}},
        "tokenizer.json: normalizer: expected one of BertNormalizer, .* got 'Precompiled'",
    ),
    "a table that is none": ({"normalizer": PRECOMPILED}, "normalizer: .* got 'Precompiled'"),
    "without its type": ({"normalizer": {"precompiled_charsmap": "AAAA"}}, "normalizer: .* None"),
    "in a sequence": (
        {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, PRECOMPILED]}},
        "normalizer: .* got 'Precompiled'",
    ),
    "a sequence of nothing": ({"normalizer": {"type": "Sequence", "normalizers": 5}}, "whole"),
    "another model": ({"model": {"type": "Unigram", "unk_id": 0, "vocab": []}}, "got 'Unigram'"),
    "no model": ({"model": None}, "model: .* got None"),
    "another pre-tokenizer": ({"pre_tokenizer": {"type": "Digits"}}, "got 'Digits'"),
    "another post-processor": ({"post_processor": {"type": "BertProcessing"}}, "got 'BertProcess"),
    "another decoder": ({"decoder": {"type": "CTC"}}, "got 'CTC'"),
    "padding without end": (
        {
            "padding": {
                "strategy": {"Fixed": 10**12},
                "direction": "Right",
                "pad_to_multiple_of": None,
                "pad_id": 0,
                "pad_type_id": 0,
                "pad_token": "w0",
            }
        },
        "padding: expected at most 12 tokens, got 1000000000000",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_tokenizer_is_refused(name, folder):
    changes, message = HOSTILE[name]
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(json.loads(pieces(20).to_str()) | changes))
    with pytest.raises(ValueError, match=message) as raised:
        load(folder)
    assert "\n" not in str(raised.value)


def test_what_is_checked_of_a_tokenizer_is_what_is_read(folder):
    text = pieces(20).to_str()
    twice = f'{{"normalizer": {json.dumps(PRECOMPILED)}, {text[1:]}'
    (folder / "tokenizer.json").write_text(twice)
    _, tokenizer = load(folder)
    assert tokenizer.normalizer is None


def test_a_tokenizer_without_the_type_of_its_model_is_read(folder):
    content = json.loads(pieces(20).to_str())
    del content["model"]["type"]
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert load(folder)[1].encode("w7").ids == [7]


PANICS = {
    "a prefix that is not there": {
        "model": {
            "type": "BPE",
            "vocab": {"a": 0, "b": 1, "ab": 2},
            "merges": [["a", "b"]],
            "continuing_subword_prefix": "AAAA",
        }
    },
    "a template with a token that is not there": {
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"SpecialToken": {"id": "w0", "type_id": 0}}],
            "special_tokens": {},
        }
    },
}


@pytest.mark.parametrize("name", PANICS)
def test_a_panic_of_the_library_is_an_error(name, folder):
    content = json.loads(pieces(20).to_str()) | PANICS[name]
    (folder / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="tokenizer.json: expected a whole tokenizer, got:"):
        load(folder)


def test_the_ids_of_tokens_with_a_meaning_are_those_of_the_tokenizer(tmp_path):
    pairs = Tokenizer(WordPiece({"[UNK]": 0, "a": 1, "<|endoftext|>": 7}, unk_token="[UNK]"))
    for name, tokenizer, end in (
        ("with", pairs, 7),
        ("without", pieces(20), None),
        ("no", None, None),
    ):
        save(modern(), tokenizer, tmp_path / name)
        config = json.loads((tmp_path / name / "config.json").read_text())
        assert config["eos_token_id"] == config["bos_token_id"] == end, name
        assert config["pad_token_id"] is None


def test_the_ids_of_a_folder_are_written_again(folder, tmp_path):
    config(folder, bos_token_id=10**12, eos_token_id=4, pad_token_id="gone")
    (folder / "generation_config.json").write_text('{"eos_token_id": [5, 6]}')
    pieces(20).save(str(folder / "tokenizer.json"))
    save(*load(folder), tmp_path / "again")
    again = json.loads((tmp_path / "again" / "config.json").read_text())
    assert again["bos_token_id"] == 10**12 and again["eos_token_id"] == [5, 6]
    assert "pad_token_id" not in again
    special = json.loads((tmp_path / "again" / "tokenizer_config.json").read_text())
    assert special["eos_token"] == "w5" and "bos_token" not in special


def test_what_is_no_folder_is_fetched_from_the_hub_without_its_folders(folder, monkeypatch):
    (folder / "onnx").mkdir()
    for other in "README.md", "onnx/model.safetensors", "onnx/config.json", "pytorch_model.bin":
        (folder / other).write_text("other")

    def snapshot_download(repo_id, allow_patterns, ignore_patterns):
        assert repo_id == "owner/name"
        fetched = folder.parent / "fetched"
        for path in (path for path in folder.rglob("*") if path.is_file()):
            name = path.relative_to(folder).as_posix()
            if any(fnmatch(name, each) for each in allow_patterns) and not any(
                fnmatch(name, each) for each in ignore_patterns
            ):
                (fetched / name).parent.mkdir(parents=True, exist_ok=True)
                (fetched / name).write_bytes(path.read_bytes())
        return str(fetched)

    hub = SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    assert_same_parameters(load("owner/name")[0], load(folder)[0])
    fetched = {path.name for path in (folder.parent / "fetched").iterdir()}
    assert fetched == {"config.json", WEIGHTS}


def test_what_the_hub_says_is_an_error_of_one_line(monkeypatch):
    def snapshot_download(repo_id, **patterns):
        raise RuntimeError("401\n\nRepository not found")

    hub = SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    with pytest.raises(OSError, match="owner/name: cannot be fetched .*: 401 Repository not found"):
        load("owner/name")
