"""BERT: ``BertModel`` and ``BertForMaskedLM``."""

from dataclasses import replace
from typing import Any

import numpy as np

from transformer_core.foundation.checks import LARGEST_SIZE, check_rate
from transformer_core.interop.config import ACTIVATIONS, Config, Plan, name_of
from transformer_core.interop.rows import Row, dense, embedding, norm
from transformer_core.layers import AttentionSpec, LayerSpec, NormSpec, TiedReadout
from transformer_core.models import Bert, BertEncoder, StackSpec

DEFAULTS = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
}
# From here on each activation returns its input, in float64 and in float32.
REACH = {"relu": 0.0, "gelu": 9.0, "gelu_tanh": 9.0, "silu": 40.0}


def plan(
    settings: dict, architecture: str, pooler: bool = False, most: int = LARGEST_SIZE
) -> Plan:
    """Return what a configuration of the family describes, of so many layers at most."""
    config = Config(settings, DEFAULTS)
    config.expect(
        model_type="bert",
        position_embedding_type="absolute",
        is_decoder=False,
        add_cross_attention=False,
        tie_word_embeddings=True,
    )
    width, vocabulary = config.number("hidden_size"), config.number("vocab_size")
    hidden = config.number("intermediate_size")
    layers = config.number("num_hidden_layers", most=most)
    length = config.number("max_position_embeddings")
    segments = config.number("type_vocab_size")
    masked = architecture == "BertForMaskedLM"
    pooler = pooler and not masked

    def build(dtype, tied=True, recompute=False):
        spec = LayerSpec(
            width,
            config.number("num_attention_heads"),
            hidden,
            "post",
            NormSpec("layer_norm", config.real("layer_norm_eps")),
            config.choice("hidden_act", ACTIVATIONS),
            config.real("hidden_dropout_prob", check_rate),
            dtype,
        )
        stack = StackSpec(vocabulary, length, layers, recompute)
        rng = np.random.default_rng(0)
        if masked:
            return Bert(spec, stack, rng, tied, segments, True, False, transform=True)
        return BertEncoder(spec, stack, rng, segments, True, False, pooler)

    rows = body(vocabulary, length, segments, width, hidden, layers)
    if pooler:
        rows += dense("pooler.dense", "pooler.dense", (width, width))
    readout = None
    if masked:
        rows = [row._replace(theirs=f"bert.{row.theirs}") for row in rows]
        rows += head(vocabulary, width)
        (readout,) = dense(
            "cls.predictions.decoder", "readout", (width, vocabulary), bias=False
        )
    return Plan(rows, build, readout, ("bert.pooler.", "cls.seq_relationship."))


def body(vocabulary, length, segments, width, hidden, layers):
    """The rows of embeddings and encoder."""
    rows = [
        embedding(
            f"embeddings.{theirs}_embeddings", ours, size, width, f"eq:{equation}"
        )
        for theirs, ours, size, equation in (
            ("word", "tokens", vocabulary, "embedding"),
            ("position", "positions", length, "learned-positions"),
            ("token_type", "segments", segments, "bert-input"),
        )
    ]
    rows += norm("embeddings.LayerNorm", "embedding_norm", width)
    square, up, down = (width, width), (width, hidden), (hidden, width)
    for i in range(layers):
        theirs, ours = f"encoder.layer.{i}", f"encoder.layer_{i}"
        its, attention = f"{theirs}.attention", f"{ours}.attention"
        feed_forward = f"{ours}.feed_forward"
        for part, name in enumerate(("query", "key", "value")):
            parameter = f"{attention}.branch.query_key_value"
            rows += dense(f"{its}.self.{name}", parameter, square, part=part)
        rows += dense(f"{its}.output.dense", f"{attention}.branch.output", square)
        rows += norm(f"{its}.output.LayerNorm", f"{attention}.norm", width)
        rows += dense(
            f"{theirs}.intermediate.dense", f"{feed_forward}.branch.hidden", up
        )
        rows += dense(f"{theirs}.output.dense", f"{feed_forward}.branch.output", down)
        rows += norm(f"{theirs}.output.LayerNorm", f"{feed_forward}.norm", width)
    return rows


def head(vocabulary, width):
    """The rows of the head, without those of an output layer of its own."""
    rows = dense("cls.predictions.transform.dense", "transform.dense", (width, width))
    rows += norm("cls.predictions.transform.LayerNorm", "transform.norm", width)
    return [
        *rows,
        Row("cls.predictions.bias", "readout.bias", (vocabulary,), "eq:tied-readout"),
    ]


def config_of(model: Any) -> dict:
    """Return the configuration of a model that :func:`published` has returned."""
    spec, attention = model.spec, model.spec.attention
    masked = isinstance(model, Bert)
    return {
        "model_type": "bert",
        "architectures": ["BertForMaskedLM" if masked else "BertModel"],
        "vocab_size": len(model.tokens.table),
        "hidden_size": spec.width,
        "num_hidden_layers": len(model.encoder.layers),
        "num_attention_heads": attention.heads,
        "intermediate_size": spec.hidden_width,
        "hidden_act": name_of(spec.feed_forward),
        "hidden_dropout_prob": spec.dropout,
        "attention_probs_dropout_prob": spec.dropout,
        "max_position_embeddings": len(model.positions.table),
        "type_vocab_size": len(model.segments.table),
        "layer_norm_eps": spec.norm.eps,
        "tie_word_embeddings": True,
    }


def published(model: Any) -> Any:
    """Return the same function as a BERT that has all the parts of the published one.

    A bias that is not there is 0, and so is the segment of a model without segments. A model that
    reads out the final norm of its encoder has no transform: here it has one, the identity with a
    bias so large that the activation returns its input, before that norm, which takes the
    bias away again (eq:head-transform-identity).

    Raises
    ------
    ValueError
        If the published model has no place for a part.
    """
    spec = model.spec
    attention = spec.attention
    if (spec.placement, spec.norm.kind) != ("post", "layer_norm"):
        raise ValueError(
            f"model: expected Post-LN layers, got {spec.placement!r} with {spec.norm.kind!r}"
        )
    expected = AttentionSpec(attention.heads, bias=attention.bias, tile=attention.tile)
    if attention != expected or spec.width % attention.heads:
        raise ValueError(f"model: expected BERT's attention, got {attention}")
    name_of(spec.feed_forward)
    if not model.embedding_norm:
        raise ValueError("model: expected a norm after the embeddings, got none")
    final = model.encoder.final_norm
    masked = isinstance(model, Bert)
    if masked and not isinstance(model.readout, TiedReadout):
        raise ValueError(
            "model: expected an output layer that shares the table, got its own"
        )
    if (final is not None) != (masked and not model.transform):
        raise ValueError(
            "model: expected a transform before the output layer, or a final norm and no transform"
        )
    if attention.bias and model.segments and final is None:
        return model
    plain = replace(spec, attention=replace(attention, bias=True))
    segments = len(model.segments.table) if model.segments else 1
    given, ends = (
        (plain, model.stack, np.random.default_rng(0)),
        (segments, True, False),
    )
    made: Any = (
        Bert(*given, True, *ends, transform=True)
        if masked
        else BertEncoder(*given, *ends, bool(model.pooler))
    )
    arrays = dict(model.parameters())
    for name, array in made.parameters().items():
        if name.startswith("segments.") or name.endswith(".bias"):
            arrays.setdefault(name, np.zeros_like(array))
    if masked and final is not None:
        for name in ("gamma", "beta"):
            arrays[f"transform.norm.{name}"] = arrays.pop(f"encoder.final_norm.{name}")
        arrays["transform.dense.weight"] = np.eye(spec.width, dtype=spec.dtype)
        arrays["transform.dense.bias"] = np.full(spec.width, far(model), spec.dtype)
    made.set_parameters(arrays)
    return made


def far(model):
    """Return how far to the right every entry of the last layer's norm is within its reach.

    An entry of x_hat is sqrt(D - 1) at most.
    """
    last = model.encoder.layers[-1].feed_forward.norm
    largest = np.abs(last.gamma) * np.sqrt(len(last.gamma) - 1) + np.abs(last.beta)
    return REACH[model.spec.feed_forward] + largest.max()
