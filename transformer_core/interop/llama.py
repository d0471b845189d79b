"""Llama and Qwen3: ``LlamaForCausalLM`` and ``Qwen3ForCausalLM``, which differ in two norms."""

from dataclasses import replace
from typing import Any

import numpy as np

from transformer_core.foundation.checks import LARGEST_SIZE, check_choice
from transformer_core.interop.config import Config, Plan, name_of
from transformer_core.interop.rows import dense, embedding, norm
from transformer_core.layers import AttentionSpec, LayerSpec, NormSpec, TiedReadout
from transformer_core.models import Gpt, StackSpec
from transformer_core.ops.rotary import SCALINGS

DEFAULTS = {
    "llama": {
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": False,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "attention_bias": False,
        "use_sliding_window": False,
    }
}
DEFAULTS["qwen3"] = DEFAULTS["llama"] | {
    "vocab_size": 151936,
    "intermediate_size": 22016,
    "num_key_value_heads": 32,
    "head_dim": 128,
    "max_position_embeddings": 32768,
    "sliding_window": 4096,
    "max_window_layers": 28,
}
GATED = {"silu": "swiglu", "gelu": "geglu", "gelu_pytorch_tanh": "geglu_tanh"}
ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM"}
TRANSFORMS = {"llama": "rotary_halves", "qwen3": "qk_norm_rotary_halves"}
BASE = 10000.0


def plan(
    settings: dict, architecture: str, pooler: bool = False, most: int = LARGEST_SIZE
) -> Plan:
    """Return what a configuration of one of the two families describes, as for BERT."""
    (family,) = (name for name, its in ARCHITECTURES.items() if its == architecture)
    config = Config(settings, DEFAULTS[family])
    config.expect(
        model_type=family, mlp_bias=False, pretraining_tp=1, attention_dropout=0.0
    )
    if family == "llama":
        config.expect(use_sliding_window=False)
    config.kind("tie_word_embeddings", bool)
    width, vocabulary = config.number("hidden_size"), config.number("vocab_size")
    hidden = config.number("intermediate_size")
    layers = config.number("num_hidden_layers", most=most)
    heads, eps = config.number("num_attention_heads"), config.real("rms_norm_eps")
    key_heads = config.number_or("num_key_value_heads", heads)
    key_width = config.number_or("head_dim", width // heads)
    bias, windows = config.kind("attention_bias", bool), windows_of(config, layers)
    transform = rotary_of(config) | {"kind": TRANSFORMS[family]}
    if family == "qwen3":
        transform["eps"] = eps

    def build(dtype, tied=True, recompute=False):
        attention = AttentionSpec(
            heads, key_width, key_width, bias, key_heads, transform
        )
        spec = LayerSpec(
            width,
            attention,
            hidden,
            "pre",
            NormSpec("rms_norm", eps),
            config.choice("hidden_act", GATED),
            dtype=dtype,
        )
        length = config.number("max_position_embeddings")
        stack = StackSpec(vocabulary, length, layers, recompute)
        model = Gpt(spec, stack, np.random.default_rng(0), tied)
        for layer, window in zip(model.decoder.layers, windows, strict=True):
            layer.attention.branch.spec = replace(attention, window=window)
        return model

    tokens = "model.embed_tokens", "tokens", vocabulary, width
    rows = [embedding(*tokens, "eq:embedding")]
    widths = [heads * key_width, key_heads * key_width, key_heads * key_width]
    for i in range(layers):
        theirs, ours = f"model.layers.{i}", f"decoder.layer_{i}"
        its, attention = f"{theirs}.self_attn", f"{ours}.attention.branch"
        branch, after = f"{ours}.feed_forward.branch", f"{ours}.feed_forward.norm"
        rows += norm(
            f"{theirs}.input_layernorm", f"{ours}.attention.norm", width, False
        )
        for part, (letter, wide) in enumerate(zip("qkv", widths, strict=True)):
            place, shape = f"{attention}.query_key_value", (width, wide)
            rows += dense(f"{its}.{letter}_proj", place, shape, bias, part=part)
        for letter, name in ("q", "query"), ("k", "key"):
            if family == "qwen3":
                to = f"{attention}.{name}_transform.norm"
                rows += norm(f"{its}.{letter}_norm", to, key_width, False)
        output = f"{attention}.output"
        rows += dense(f"{its}.o_proj", output, (widths[0], width), bias)
        rows += norm(f"{theirs}.post_attention_layernorm", after, width, False)
        for name, parameter, shape in (
            ("gate_proj", "gate", (width, hidden)),
            ("up_proj", "value", (width, hidden)),
            ("down_proj", "output", (hidden, width)),
        ):
            rows += dense(f"{theirs}.mlp.{name}", f"{branch}.{parameter}", shape, False)
    rows += norm("model.norm", "decoder.final_norm", width, False)
    (readout,) = dense("lm_head", "readout", (width, vocabulary), bias=False)
    return Plan(rows, build, readout)


def rotary_of(config):
    """Return the settings of the rotation: the forms of either version have to agree."""
    said, places = {}, {}
    for name in (
        "rope_theta",
        "partial_rotary_factor",
        "original_max_position_embeddings",
        "rope_scaling",
        "rope_parameters",
    ):
        if config[name] is None:
            continue
        given = {name: config[name]}
        if name in ("rope_scaling", "rope_parameters"):
            given = config.kind(name, dict)
            given = {"rope_type": given.get("type", "default")} | given
        for key, value in given.items():
            if value is not None and said.setdefault(key, value) != value:
                raise ValueError(
                    f"config.json: {name}: {key}: expected {said[key]!r:.60}, as in "
                    f"{places[key]}, got {value!r:.60}"
                )
            places.setdefault(key, name)
    rope = Config(said, {"rope_type": "default", "rope_theta": BASE})
    rope.expect(partial_rotary_factor=1.0)
    kind, base = rope["rope_type"], {"base": float(rope.real("rope_theta"))}
    check_choice("config.json: rope_type", kind, ("default", *SCALINGS))
    if kind == "default":
        return base
    numbers = {name: rope.real(name) for name in SCALINGS[kind]}
    return base | {"scaling": {"rope_type": kind} | numbers}


def windows_of(config, layers):
    """Return the window of each layer, None where it sees all that is before it."""
    if not config.kind("use_sliding_window", bool) or config["sliding_window"] is None:
        return [None] * layers
    known = {
        "full_attention": None,
        "sliding_attention": config.number("sliding_window"),
    }
    full = min(config.number("max_window_layers", least=0), layers)
    kinds = config.kind("layer_types", list, type(None)) or [
        *["full_attention"] * full,
        *["sliding_attention"] * (layers - full),
    ]
    if len(kinds) != layers or not all(kind in [*known] for kind in kinds):
        raise ValueError(
            f"config.json: layer_types: expected {layers} of {', '.join(known)}, got {kinds!r:.80}"
        )
    return [known[kind] for kind in kinds]


def config_of(model: Any) -> dict:
    """Return the configuration of a model, or raise ``ValueError`` if it is none of the two."""
    spec, attention = model.spec, model.spec.attention
    kind, settings = attention.transform_settings()
    families = {name: family for family, name in TRANSFORMS.items()}
    if kind not in families:
        raise ValueError(
            f"model: expected one of {', '.join(families)} before attention, got {kind!r}; "
            "pairs_to_halves tells in which order pairs are halves"
        )
    key_width, value_width = attention.head_widths(spec.width)
    if (spec.placement, spec.norm.kind, key_width) != ("pre", "rms_norm", value_width):
        raise ValueError(
            f"model: expected Pre-RMSNorm and heads of one width, got {spec}"
        )
    if spec.dropout:
        raise ValueError(f"model: expected no dropout, got {spec.dropout}")
    family = families[kind]
    if family == "qwen3" and settings.get("eps", 1e-6) != spec.norm.eps:
        raise ValueError(
            f"model: expected one eps in all norms, got {spec.norm.eps} and "
            f"{settings.get('eps', 1e-6)} of queries and keys"
        )
    base, scaling = settings.get("base", BASE), settings.get("scaling")
    layers = model.decoder.layers
    windows = [layer.attention.branch.spec.window for layer in layers]
    config = {
        "model_type": family,
        "architectures": [ARCHITECTURES[family]],
        "vocab_size": model.vocabulary,
        "hidden_size": spec.width,
        "intermediate_size": spec.hidden_width,
        "num_hidden_layers": len(layers),
        "num_attention_heads": attention.heads,
        "num_key_value_heads": attention.key_heads or attention.heads,
        "head_dim": key_width,
        "max_position_embeddings": model.longest,
        "hidden_act": name_of(spec.feed_forward, GATED),
        "rms_norm_eps": spec.norm.eps,
        "attention_bias": attention.bias,
        "tie_word_embeddings": isinstance(model.readout, TiedReadout),
        # Both forms: the older is what readers before version 5 know.
        "rope_theta": base,
        "rope_scaling": dict(scaling) if scaling else None,
        "rope_parameters": {"rope_theta": base, "rope_type": "default"}
        | dict(scaling or {}),
    }
    if any(windows):
        given = {window for window in windows if window}
        if family == "llama" or len(given) > 1:
            raise ValueError(
                f"model: expected one window, and Qwen3's norms, got {windows}"
            )
        config |= {
            "use_sliding_window": True,
            "sliding_window": given.pop(),
            "layer_types": [
                f"{'sliding' if window else 'full'}_attention" for window in windows
            ],
        }
    return config
