"""GPT-2: ``GPT2LMHeadModel``. Its matrices are stored as they are used here, (in, out)."""

from typing import Any

import numpy as np

from transformer_core.foundation.checks import LARGEST_SIZE, check_rate
from transformer_core.interop.config import ACTIVATIONS, Config, Plan, name_of
from transformer_core.interop.rows import dense, embedding, norm
from transformer_core.layers import AttentionSpec, LayerSpec, NormSpec, TiedReadout
from transformer_core.models import Gpt, StackSpec

DEFAULTS = {
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "activation_function": "gelu_new",
    "resid_pdrop": 0.1,
    "layer_norm_epsilon": 1e-5,
    "tie_word_embeddings": True,
}


def plan(
    settings: dict, architecture: str, pooler: bool = False, most: int = LARGEST_SIZE
) -> Plan:
    """Return what a configuration of the family describes, of so many layers at most."""
    config = Config(settings, DEFAULTS)
    config.expect(
        model_type="gpt2",
        scale_attn_weights=True,
        scale_attn_by_inverse_layer_idx=False,
        add_cross_attention=False,
    )
    width, vocabulary = config.number("n_embd"), config.number("vocab_size")
    length, layers = config.number("n_positions"), config.number("n_layer", most=most)
    config.kind("tie_word_embeddings", bool)
    hidden = config.number_or("n_inner", 4 * width)

    def build(dtype, tied=True, recompute=False):
        spec = LayerSpec(
            width,
            config.number("n_head"),
            hidden,
            "pre",
            NormSpec("layer_norm", config.real("layer_norm_epsilon")),
            config.choice("activation_function", ACTIVATIONS),
            config.real("resid_pdrop", check_rate),
            dtype,
        )
        stack = StackSpec(vocabulary, length, layers, recompute)
        return Gpt(spec, stack, np.random.default_rng(0), tied)

    equation = "eq:learned-positions"
    rows = [
        embedding("transformer.wte", "tokens", vocabulary, width, "eq:embedding"),
        embedding("transformer.wpe", "positions", length, width, equation),
    ]
    for i in range(layers):
        theirs, ours = f"transformer.h.{i}", f"decoder.layer_{i}"
        attention, branch = f"{ours}.attention.branch", f"{ours}.feed_forward.branch"
        rows += norm(f"{theirs}.ln_1", f"{ours}.attention.norm", width)
        rows += norm(f"{theirs}.ln_2", f"{ours}.feed_forward.norm", width)
        for name, parameter, shape in (
            ("attn.c_attn", f"{attention}.query_key_value", (width, 3 * width)),
            ("attn.c_proj", f"{attention}.output", (width, width)),
            ("mlp.c_fc", f"{branch}.hidden", (width, hidden)),
            ("mlp.c_proj", f"{branch}.output", (hidden, width)),
        ):
            rows += dense(f"{theirs}.{name}", parameter, shape, transposed=False)
    rows += norm("transformer.ln_f", "decoder.final_norm", width)
    (readout,) = dense("lm_head", "readout", (width, vocabulary), bias=False)
    return Plan(rows, build, readout)


def config_of(model: Any) -> dict:
    """Return the configuration of a model, or raise ``ValueError`` if it is no GPT-2."""
    spec = model.spec
    expected = AttentionSpec(spec.attention.heads, tile=spec.attention.tile)
    if spec.attention != expected or spec.placement != "pre":
        raise ValueError(
            f"model: expected GPT-2's attention in Pre-LN layers, got {spec}"
        )
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": model.vocabulary,
        "n_positions": model.longest,
        "n_embd": spec.width,
        "n_layer": len(model.decoder.layers),
        "n_head": spec.attention.heads,
        "n_inner": spec.hidden_width,
        "activation_function": name_of(spec.feed_forward),
        "resid_pdrop": spec.dropout,
        "embd_pdrop": spec.dropout,
        "attn_pdrop": spec.dropout,
        "layer_norm_epsilon": spec.norm.eps,
        "tie_word_embeddings": isinstance(model.readout, TiedReadout),
    }
