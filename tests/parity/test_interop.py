"""Folders of the library ``transformers``: values, gradients, files, and what is written."""

import json

import numpy as np
import pytest
from interop.models import SMALL, make

from transformer_core.interop import load, save
from transformer_core.interop.__main__ import main
from transformer_core.interop.parity import kept_in, parity

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SHARED = SMALL | {"num_key_value_heads": 2}
BASE = {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12}
SCALED = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}
BERT, GPT2 = "BertForMaskedLM", "GPT2LMHeadModel"
LLAMA, QWEN3 = "LlamaForCausalLM", "Qwen3ForCausalLM"
SEVERAL = {"hidden_act": "silu", "type_vocab_size": 3, "layer_norm_eps": 1e-5}
TANH = {"hidden_act": "gelu_pytorch_tanh", "rms_norm_eps": 1e-5}
BIASES = {"rope_parameters": LINEAR, "attention_bias": True, "rms_norm_eps": 1e-5}
WINDOWS = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
LARGE = SMALL | {"num_hidden_layers": 1, "num_key_value_heads": 8}
LLAMA_1B = {"hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 32}
QWEN3_06B = {"hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16}
CASES = {
    "bert": (BERT, SMALL),
    "bert, one head": (BERT, SMALL | {"num_attention_heads": 1, "hidden_act": "relu"}),
    "bert, gelu_new": (BERT, SMALL | {"hidden_act": "gelu_new"}),
    "bert, three segments": (BERT, SMALL | SEVERAL),
    "bert, base": (BERT, SMALL | BASE),
    "bert, pooler": ("BertModel", SMALL),
    "gpt2": (GPT2, SMALL),
    "gpt2, inner": (GPT2, SMALL | {"n_inner": 17}),
    "gpt2, gelu": (GPT2, SMALL | {"activation_function": "gelu"}),
    "gpt2, relu": (GPT2, SMALL | {"activation_function": "relu", "n_head": 1}),
    "gpt2, not tied": (GPT2, SMALL | {"tie_word_embeddings": False}),
    "gpt2, base": (GPT2, SMALL | BASE),
    "llama": (LLAMA, SHARED),
    "llama, one key head": (LLAMA, SHARED | {"num_key_value_heads": 1}),
    "llama, tied, biases": (LLAMA, SMALL | {"tie_word_embeddings": True, "attention_bias": True}),
    "llama, linear": (LLAMA, SHARED | {"rope_parameters": LINEAR, "head_dim": 10}),
    "llama, llama3": (LLAMA, SHARED | {"rope_parameters": SCALED, "head_dim": 8}),
    "llama, geglu": (LLAMA, SHARED | TANH),
    "llama, 1 billion": (LLAMA, LARGE | LLAMA_1B),
    "qwen3": (QWEN3, SHARED | {"head_dim": 8}),
    "qwen3, tied": (QWEN3, SHARED | {"head_dim": 6, "tie_word_embeddings": True}),
    "qwen3, all heads": (QWEN3, SMALL | {"head_dim": 8, "num_key_value_heads": 4}),
    "qwen3, windows": (QWEN3, SHARED | {"head_dim": 8} | WINDOWS),
    "qwen3, linear, biases": (QWEN3, SHARED | {"head_dim": 8} | BIASES),
    "qwen3, 0.6 billion": (QWEN3, LARGE | QWEN3_06B | {"head_dim": 128}),
}


def reference(architecture, settings, dtype="float32"):
    """Build a model of the reference at random weights, all of them generic."""
    kind = getattr(transformers, architecture)
    config = kind.config_class(**settings, pad_token_id=0, bos_token_id=1, eos_token_id=None)
    model = kind(config).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            drawn = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim == 2:
                spread = 0.3 if "emb" in name or "wte" in name else parameter.shape[-1] ** -0.5
                parameter.copy_(spread * drawn)
            else:
                is_scale = name.endswith("weight")
                parameter.copy_(0.2 * drawn + is_scale)
    return model.to(getattr(torch, dtype))


@pytest.fixture
def folder(request, tmp_path):
    architecture, settings = CASES[request.param]
    reference(architecture, settings).save_pretrained(tmp_path / "theirs")
    return tmp_path / "theirs"


SIZES = "bert, base", "gpt2, base", "llama, 1 billion", "qwen3, 0.6 billion"
FAMILIES = [name for name in CASES if name not in SIZES]
every_case = pytest.mark.parametrize(
    "folder",
    [*FAMILIES, *(pytest.param(name, marks=pytest.mark.slow) for name in SIZES)],
    indirect=True,
)


@every_case
def test_every_number_is_that_of_the_reference(folder):
    found = parity(folder)
    assert max(found.hidden) <= 1e-10 and found.output <= 1e-10 and found.loss <= 1e-10
    for entry in found.arrays:
        assert entry.value_error == 0, entry.row.theirs
        assert entry.gradient_error <= 1e-9, entry.row.theirs
    single = parity(folder, "float32")
    assert max(single.hidden) <= 1e-5
    assert single.largest <= 1e-3


@pytest.mark.parametrize("folder", FAMILIES, indirect=True)
def test_what_is_written_is_what_was_read(folder, tmp_path):
    model, _ = load(folder)
    save(model, None, tmp_path / "ours")
    name = "model.safetensors"
    assert (tmp_path / "ours" / name).read_bytes() == (folder / name).read_bytes()
    again, _ = load(tmp_path / "ours")
    assert again.spec == model.spec and again.stack == model.stack


@pytest.mark.parametrize(
    "folder", ["bert, pooler", "gpt2, not tied", "llama", "qwen3, windows"], indirect=True
)
def test_what_is_written_is_opened_there(folder, tmp_path):
    model, _ = load(folder)
    save(model, None, tmp_path / "ours")
    found = parity(tmp_path / "ours")
    assert max(found.hidden) <= 1e-10 and found.output <= 1e-10
    assert len(found.arrays) == len(parity(folder).arrays)
    for entry in found.arrays:
        assert entry.value_error == 0 and entry.gradient_error <= 1e-9, entry.row.theirs


@pytest.mark.parametrize("folder", ["llama"], indirect=True)
def test_the_table_of_contents_is_printed(folder, capsys):
    found = parity(folder, "float32")
    assert main(["parity", str(folder), "--dtype", "float32"]) == 0
    assert capsys.readouterr().out == f"{found}\n"
    head, *lines, hidden, ends = str(found).splitlines()
    assert head.split() == [*("name there name here equation T value gradient".split())]
    assert len(lines) == len(found.arrays)
    name = "model.layers.1.self_attn.k_proj.weight"
    (line,) = (line for line in lines if line.startswith(name))
    place = ["decoder.layer_1.attention.branch.query_key_value.weight", "[1]"]
    assert line.split()[:-1] == [name, *place, "eq:linear", "T", "0e+00"]
    assert len(hidden.removeprefix("hidden states: ").split()) == 3
    assert ends == f"output {found.output:.0e}, loss {found.loss:.0e}"
    assert main(["parity", str(folder / "none")]) == 1
    assert capsys.readouterr().err.startswith("error: folder: expected a folder, or an id")


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_continuation_stops_at_its_end(family, tmp_path):
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece

    model = make(family, np.float32, tied=False)
    ids, written = np.array([[3, 1]]), []
    logits, state = model.prefill(ids)
    for _ in range(10):
        written.append(int(logits[0].argmax()))
        logits, state = model.step(np.array(written[-1:]), state)
    end = max(range(9), key=lambda i: i * (written[i] not in written[:i]))
    assert end > 0
    tokens = {f"w{i}": i for i in range(11) if i != written[end]} | {"<|endoftext|>": written[end]}
    save(model, Tokenizer(WordPiece(tokens, unk_token="w0")), tmp_path / "ours")
    save(*load(tmp_path / "ours"), tmp_path / "again")
    for folder in tmp_path / "ours", tmp_path / "again":
        theirs = transformers.AutoModelForCausalLM.from_pretrained(folder)
        found = theirs.generate(torch.tensor(ids), max_new_tokens=10, do_sample=False)
        assert found[0].tolist() == [3, 1, *written[: end + 1]]
        assert transformers.AutoTokenizer.from_pretrained(folder).eos_token == "<|endoftext|>"


def test_the_ends_of_a_folder_are_written_again(tmp_path):
    theirs = reference(*CASES["llama"])
    theirs.config.eos_token_id = theirs.generation_config.eos_token_id = [5, 6]
    theirs.save_pretrained(tmp_path / "theirs")
    save(*load(tmp_path / "theirs"), tmp_path / "ours")
    found = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours").generation_config
    assert (found.eos_token_id, found.bos_token_id, found.pad_token_id) == ([5, 6], 1, 0)


@pytest.mark.parametrize(
    "folder", [name for name in FAMILIES if not name.startswith("bert")], indirect=True
)
def test_the_same_tokens_are_written(folder):
    model, _ = load(folder, "float64")
    ids = np.random.default_rng(3).integers(1, 61, size=(2, 5))
    with kept_in("float64"):
        theirs = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float64, attn_implementation="eager"
        )
        expected = theirs.generate(torch.tensor(ids), max_new_tokens=20, do_sample=False).numpy()
    logits, state = model.prefill(ids)
    for _ in range(20):
        newest = logits.argmax(axis=-1)
        ids = np.concatenate([ids, newest[:, np.newaxis]], axis=1)
        if ids.shape[1] < 25:
            logits, state = model.step(newest, state)
    assert np.array_equal(ids, expected)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_other_dtypes_come_and_go_bit_for_bit(tmp_path, dtype):
    theirs = reference(*CASES["qwen3"], dtype)
    theirs.save_pretrained(tmp_path / "theirs")
    model, _ = load(tmp_path / "theirs")
    assert model.spec.dtype == ("float64" if dtype == "float64" else "float32")
    save(model, None, tmp_path / "ours", dtype)
    name = "model.safetensors"
    assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes()


def test_shards_are_one_model(tmp_path):
    theirs = reference(*CASES["llama"])
    theirs.save_pretrained(tmp_path / "whole")
    theirs.save_pretrained(tmp_path / "shards", max_shard_size="8KB")
    assert (tmp_path / "shards" / "model.safetensors.index.json").exists()
    whole, shards = load(tmp_path / "whole")[0], load(tmp_path / "shards")[0]
    for name, array in whole.parameters().items():
        assert np.array_equal(array, shards.parameters()[name])


def test_both_forms_of_the_rotary_settings_are_read(tmp_path):
    reference(*CASES["llama, llama3"]).save_pretrained(tmp_path)
    new, _ = load(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope
    path.write_text(json.dumps(config))
    old, _ = load(tmp_path)
    assert new.spec == old.spec and new.spec.attention.transform["base"] == 500000.0
