"""Adapters of the library ``peft``: read, and written."""

import numpy as np
import pytest
from interop.models import SMALL

from transformer_core.interop import load, rows_of
from transformer_core.interop.lora import load_adapter, save_adapter
from transformer_core.layers import add_lora
from transformer_core.layers.lora import lora_layers

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

pytestmark = [  # of what peft calls
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning"),
    pytest.mark.filterwarnings("ignore:fan_in_fan_out is set to False:UserWarning"),
]

SETTINGS = SMALL | {"pad_token_id": None, "bos_token_id": 1, "eos_token_id": 2}
CASES = {
    "bert, query and value": ("BertModel", {}, ["query", "value"]),
    "bert, all": ("BertModel", {}, ["query", "key", "value", "attention.output.dense"]),
    "bert, a head": ("BertForMaskedLM", {}, ["key", "intermediate.dense"]),
    "gpt2": ("GPT2LMHeadModel", {}, ["c_attn", "c_fc"]),
    "llama": ("LlamaForCausalLM", {"num_key_value_heads": 2}, ["q_proj", "v_proj", "down_proj"]),
}
IDS = np.random.default_rng(0).integers(0, 61, size=(2, 7))


@pytest.fixture
def base(request, tmp_path):
    architecture, settings, targets = CASES[request.param]
    kind = getattr(transformers, architecture)
    kind(kind.config_class(**SETTINGS, **settings)).save_pretrained(tmp_path / "base")
    return tmp_path / "base", kind, targets


every_case = pytest.mark.parametrize("base", CASES, indirect=True)


def there(model):
    with torch.no_grad():
        return model.eval()(torch.tensor(IDS))[0].numpy()


def here(model):
    context = {"segment_ids": np.zeros_like(IDS)} if hasattr(model, "segments") else {}
    return model.forward(IDS, **context)[0]


@every_case
@pytest.mark.parametrize("use_rslora", [False, True])
def test_an_adapter_of_peft_does_the_same_here(base, use_rslora, tmp_path):
    folder, kind, targets = base
    settings = peft.LoraConfig(
        r=3, lora_alpha=5, use_rslora=use_rslora, target_modules=targets, init_lora_weights=False
    )
    theirs = peft.get_peft_model(kind.from_pretrained(folder, dtype=torch.float64), settings)
    theirs.save_pretrained(tmp_path / "adapter")
    model, _ = load(folder, "float64")
    plain = here(model)
    load_adapter(tmp_path / "adapter", model, rows_of(model))
    assert abs(here(model) - plain).max() > 1e-3
    np.testing.assert_allclose(here(model), there(theirs), atol=1e-5)


@every_case
def test_an_adapter_from_here_does_the_same_in_peft(base, tmp_path):
    folder, kind, _ = base
    model, _ = load(folder, "float64")
    rows, plain = rows_of(model), here(model)
    rng = np.random.default_rng(1)
    add_lora(model, ["query_key_value", "feed_forward.branch.output"], 3, 5.0, rng)
    for layer in lora_layers(model).values():
        layer.b = rng.normal(size=layer.b.shape)
    save_adapter(tmp_path / "adapter", model, rows)
    theirs = kind.from_pretrained(folder, dtype=torch.float64)
    theirs = peft.PeftModel.from_pretrained(theirs, tmp_path / "adapter")
    assert abs(here(model) - plain).max() > 1e-3
    np.testing.assert_allclose(here(model), there(theirs), atol=1e-5)
