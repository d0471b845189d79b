"""Small models of the four families, and recordings of them."""

from dataclasses import replace

import numpy as np

from transformer_core.interop import record
from transformer_core.layers import AttentionSpec, LayerSpec, NormSpec
from transformer_core.models import Bert, BertEncoder, Gpt, StackSpec

STACK = StackSpec(11, 12, 2)
LLAMA = {
    "attention": AttentionSpec(4, key_heads=2, bias=False, transform="rotary_halves"),
    "placement": "pre",
    "norm": NormSpec("rms_norm", 1e-6),
    "feed_forward": "swiglu",
}
QWEN = LLAMA | {"attention": AttentionSpec(4, 8, 8, False, 2, "qk_norm_rotary_halves")}
WINDOWS = QWEN | {"attention": replace(QWEN["attention"], window=4)}
GPT2 = {"attention": 4, "placement": "pre", "feed_forward": "gelu_tanh"}
BERT = {
    "attention": 4,
    "placement": "post",
    "norm": NormSpec("layer_norm", 1e-12),
    "feed_forward": "gelu",
}
SMALL = {  # a configuration of any of the families in transformers
    "vocab_size": 61,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 32,
}
FAMILIES = {"llama": LLAMA, "qwen": QWEN, "gpt2": GPT2, "bert": BERT}
FAMILIES |= {"qwen windows": WINDOWS, "encoder": BERT}


def make(family, dtype=np.float64, tied=True, **changes):
    """Build a model with random parameters: the same ones for the same names."""
    rng = np.random.default_rng(1)
    settings = {"width": 16, "hidden_width": 24} | FAMILIES[family] | changes
    spec = LayerSpec(**settings, dtype=np.dtype(dtype).name)
    if family == "bert":
        model = Bert(spec, STACK, rng, tied, 2, embedding_norm=True, final_norm=False)
    elif family == "encoder":
        model = BertEncoder(spec, STACK, rng, 2, True, False, pooler=True)
    else:
        model = Gpt(spec, STACK, rng, tied)
    if family == "qwen windows":  # in the last layers alone, as in the published ones
        first = model.decoder.layers[0].attention.branch
        first.spec = replace(first.spec, window=None)
    for name, array in model.parameters().items():
        rng = np.random.default_rng(list(name.encode()))
        array[...] = 0.3 * rng.normal(size=array.shape) + name.endswith("gamma")
    return model


def inputs(family, rng, lengths=None):
    """Draw what ``record`` takes after the model."""
    shape = 3, 9
    found = {"ids": rng.integers(0, 11, shape), "targets": rng.integers(0, 11, shape)}
    if family == "encoder":  # it has no logits: its targets are cotangents
        found["targets"] = rng.normal(size=(*shape, 16))
    else:
        found["weights"] = (rng.random(shape) < 0.6).astype(float)
    if family in ("bert", "encoder"):
        found["segment_ids"] = rng.integers(0, 2, shape)
        lengths = [9, 6, 8]
    if lengths:
        found["attention_mask"] = (np.arange(9) < np.array(lengths)[:, np.newaxis]).astype(int)
    return found


def recording(family, rng=None, **changes):
    return record(make(family, **changes), **inputs(family, rng or np.random.default_rng(2)))
