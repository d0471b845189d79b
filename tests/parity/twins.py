"""Every layer and model as PyTorch has it, on the parameters of ours.

``p`` holds the parameters under our names and in our layout, as tensors: what PyTorch wants
otherwise is a transpose or a concatenation of them, and its gradients arrive under our names.
"""

from functools import partial

import pytest

from transformer_core import layers, models
from transformer_core.foundation.names import join
from transformer_core.layers.pair_table import FACTOR
from transformer_core.ops import sinusoidal_positions
from transformer_core.tasks.reconstruction import Reconstructor

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
call = torch.func.functional_call

ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": partial(F.gelu, approximate="tanh")}
ACTIVATIONS["silu"] = F.silu


def run(layer, p, *inputs):
    """Run a layer's twin."""
    return TWINS[type(layer)](layer, p, *inputs)


def part(p, name):
    """Take the parameters of a sublayer."""
    name += "."
    return {key.removeprefix(name): p[key] for key in p if key.startswith(name)}


# Our names and layout to those of nn.Linear, nn.LayerNorm, nn.MultiheadAttention, ...


def linear_state(p):
    return p | {"weight": p["weight"].T}


def norm_state(p):
    return {"weight": p["gamma"], "bias": p["beta"]}


def attention_state(p):
    if "query.weight" in p:
        for name in part(p, "query"):
            both = p[f"query.{name}"], p[f"key_value.{name}"]
            p = p | {f"query_key_value.{name}": torch.cat(both, dim=-1)}
    projection = linear_state(part(p, "query_key_value"))
    return {f"in_proj_{name}": tensor for name, tensor in projection.items()} | join(
        {"out_proj": linear_state(part(p, "output"))}
    )


# The attentions of a layer, with the names that PyTorch has for them.
ENCODER = {"attention": "self_attn"}
DECODER = {"self_attention": "self_attn", "cross_attention": "multihead_attn"}


def layer_state(p, attentions):
    state = {}
    for ours, theirs in attentions.items():
        state[theirs] = attention_state(part(p, f"{ours}.branch"))
    for i, branch in enumerate((*attentions, "feed_forward"), start=1):
        state[f"norm{i}"] = norm_state(part(p, f"{branch}.norm"))
    for i, name in enumerate(("hidden", "output"), start=1):
        state[f"linear{i}"] = linear_state(part(p, f"feed_forward.branch.{name}"))
    return join(state)


def stack_state(layers, norm):
    state = {f"layers.{i}": layer for i, layer in enumerate(layers)}
    return join(state | ({"norm": norm_state(norm)} if norm else {}))


# The modules. They hold no parameters of their own: the states above replace all of them.


def attention_module(layer):
    width, biased = layer.output.weight.shape[0], layer.output.bias is not None
    return nn.MultiheadAttention(width, layer.heads, layer.dropout, biased, batch_first=True)


def layer_module(kind, layer, attention):
    feed_forward = layer.feed_forward.branch
    module = kind(
        feed_forward.hidden.weight.shape[0],
        attention.heads,
        feed_forward.hidden.weight.shape[1],
        attention.dropout,
        ACTIVATIONS[feed_forward.activate.__name__],
        norm_first=layer.feed_forward.pre,
        batch_first=True,
    )
    module.self_attn = attention_module(attention)
    module.dropout = nn.Identity()  # ours has none between the two linear maps
    return module


def encoder_layer_module(layer):
    return layer_module(nn.TransformerEncoderLayer, layer, layer.attention.branch)


def decoder_layer_module(layer):
    return layer_module(nn.TransformerDecoderLayer, layer, layer.self_attention.branch)


def norm_module(norm):
    return nn.LayerNorm(len(norm.gamma)) if norm else None


def blocked(keep, heads, x, source):
    """Turn ``keep`` into PyTorch's (B * H, T, S), where True keeps away."""
    if keep is None:
        return None
    shape = len(x), heads, x.shape[1], source.shape[1]
    return ~keep.broadcast_to(shape).flatten(0, 1)


# The twins


def linear(layer, p, x):
    return F.linear(x, p["weight"].T, p.get("bias"))


def lora_linear(layer, p, x):
    """In the layout of files: the frozen weights are not among the parameters."""
    frozen = layer.linear.layer
    weight, bias = (torch.tensor(array).to(x) for array in (frozen.weight, frozen.bias))
    adapted = weight.T + layer.scale * (p["b"].T @ p["a"].T)
    return F.linear(x, adapted, bias)


def layer_norm(layer, p, x):
    return F.layer_norm(x, x.shape[-1:], p["gamma"], p["beta"])


def rms_norm(layer, p, x):
    return F.rms_norm(x, x.shape[-1:], p["gamma"], layer.eps)


def feed_forward(layer, p, x):
    hidden = linear(layer.hidden, part(p, "hidden"), x)
    active = ACTIVATIONS[layer.activate.__name__](hidden)
    return linear(layer.output, part(p, "output"), active)


def gated_feed_forward(layer, p, x):
    gate = ACTIVATIONS[layer.activate.__name__](linear(layer.gate, part(p, "gate"), x))
    value = linear(layer.value, part(p, "value"), x)
    return linear(layer.output, part(p, "output"), gate * value)


def embedding(layer, p, ids):
    return F.embedding(ids, p["table"])


def learned_positions(layer, p, x):
    return x + F.embedding(torch.arange(x.shape[1]), p["table"])


def pair_table(layer, p, x, ids):
    ids = torch.as_tensor(ids)
    earlier = torch.cat([torch.full_like(ids[:, :1], -1), ids[:, :-1]], dim=1)
    return x + F.embedding((FACTOR * earlier + ids) % len(p["table"]), p["table"])


def tied_readout(layer, p, h, table):
    return F.linear(h, table, p.get("bias"))


def pooler(layer, p, h):
    return torch.tanh(linear(layer.dense, part(p, "dense"), h[:, 0]))


def head_transform(layer, p, h):
    active = ACTIVATIONS[layer.activate.__name__](linear(layer.dense, part(p, "dense"), h))
    return layer_norm(layer.norm, part(p, "norm"), active)


def self_attention(layer, p, x, keep=None):
    if layer.spec.window:
        seen = torch.ones(2 * x.shape[1:2], dtype=bool).tril()
        seen = seen & ~seen.tril(-layer.spec.window)
        keep = seen if keep is None else keep & seen
    return cross_attention(layer, p, x, x, keep)


def cross_attention(layer, p, x, source, keep=None):
    if not square(layer):
        return attention_of_unequal_widths(layer, p, x, source, keep)
    mask = blocked(keep, layer.heads, x, source)
    options = {"attn_mask": mask, "need_weights": False}
    module = attention_module(layer)
    return call(module, attention_state(p), (x, source, source), options, strict=True)[0]


def square(attention):
    """Tell whether the heads have the widths that nn.MultiheadAttention gives them."""
    return len(set(attention.output.weight.shape)) == 1


def rotary(x, positions, frequencies, halves=False):
    """Complex numbers for the pairs of neighbours, and the formula of the files for halves."""
    angles = torch.outer(positions, frequencies).to(x)
    if halves:
        one, other = x.chunk(2, dim=-1)
        cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
        return x * cos + torch.cat([-other, one], dim=-1) * sin
    turned = torch.view_as_complex(x.contiguous().unflatten(-1, (-1, 2))) * torch.exp(1j * angles)
    return torch.view_as_real(turned).flatten(-2)


def rotary_layer(layer, p, x, first=0):
    positions = torch.arange(first, first + x.shape[2])
    return rotary(x, positions, torch.tensor(layer.frequencies), layer.halves)


def qk_norm(layer, p, x, first=0):
    normalised = run(layer.norm, part(p, "norm"), x)
    return run(layer.rotary, {}, normalised, first)


def attention_of_unequal_widths(layer, p, x, source, keep):
    """Do what nn.MultiheadAttention cannot, by the function that it is made of."""
    if "query.weight" in p:
        query = linear(None, part(p, "query"), x)
        key, value = linear(None, part(p, "key_value"), source).tensor_split(layer.edges, dim=-1)
    else:
        projected = linear(None, part(p, "query_key_value"), x)
        query, key, value = projected.tensor_split(layer.edges, dim=-1)
    counts = layer.heads, layer.key_heads, layer.key_heads
    heads = [
        a.unflatten(-1, (count, -1)).transpose(1, 2)
        for a, count in zip((query, key, value), counts, strict=True)
    ]
    for i, name in enumerate(("query_transform", "key_transform")):
        if transform := getattr(layer, name):
            heads[i] = run(transform, part(p, name), heads[i])
    query, *shared = heads
    key, value = (a.repeat_interleave(layer.heads // layer.key_heads, dim=1) for a in shared)
    context = F.scaled_dot_product_attention(query, key, value, keep)
    return linear(None, part(p, "output"), context.transpose(1, 2).flatten(2))


def residual(layer, p, x, *context):
    def branch(x):
        out = run(layer.branch, part(p, "branch"), x, *context)
        return F.dropout(out, layer.dropout)

    def norm(x):
        return run(layer.norm, part(p, "norm"), x)

    return x + branch(norm(x)) if layer.pre else norm(x + branch(x))


def encoder_layer(layer, p, x, keep=None):
    mask = blocked(keep, layer.attention.branch.heads, x, x)
    module, state = encoder_layer_module(layer), layer_state(p, ENCODER)
    return call(module, state, (x, mask), strict=True)


def decoder_layer(layer, p, x, source, keep=None, source_keep=None):
    if not square(layer.self_attention.branch):
        x = run(layer.self_attention, part(p, "self_attention"), x, keep)
        context = source, source_keep
        x = run(layer.cross_attention, part(p, "cross_attention"), x, *context)
        return run(layer.feed_forward, part(p, "feed_forward"), x)
    heads = layer.self_attention.branch.heads
    masks = blocked(keep, heads, x, x), blocked(source_keep, heads, x, source)
    module, state = decoder_layer_module(layer), layer_state(p, DECODER)
    return call(module, state, (x, source, *masks), strict=True)


def encoder(model, p, x, keep=None):
    first, norm = model.layers[0], part(p, "final_norm")
    module = nn.TransformerEncoder(
        encoder_layer_module(first),
        len(model.layers),
        norm_module(model.final_norm),
        enable_nested_tensor=False,
    )
    states = (layer_state(part(p, f"layer_{i}"), ENCODER) for i in range(len(model.layers)))
    mask = blocked(keep, first.attention.branch.heads, x, x)
    return call(module, stack_state(states, norm), (x, mask), strict=True)


def reconstructor(model, p, x, keep=None):
    h = encoder(model.encoder, part(p, "encoder"), x, keep)
    return linear(model.readout, part(p, "readout"), h) if model.readout else h


def decoder(model, p, x, source, keep, source_keep):
    first, norm = model.layers[0], part(p, "final_norm")
    count = len(model.layers)
    module = nn.TransformerDecoder(
        decoder_layer_module(first), count, norm_module(model.final_norm)
    )
    states = (layer_state(part(p, f"layer_{i}"), DECODER) for i in range(count))
    heads = first.self_attention.branch.heads
    masks = blocked(keep, heads, x, x), blocked(source_keep, heads, x, source)
    return call(module, stack_state(states, norm), (x, source, *masks), strict=True)


def own_readout(layer, p, h, table=None):
    return linear(layer, p, h)


def bert_encoder(model, p, ids, keep=None, segment_ids=None):
    x = F.embedding(ids, p["tokens.table"])
    x = x + F.embedding(torch.arange(ids.shape[1]), p["positions.table"])
    if model.segments:
        x = x + F.embedding(segment_ids, p["segments.table"])
    if model.embedding_norm:
        x = layer_norm(model.embedding_norm, part(p, "embedding_norm"), x)
    x = F.dropout(x, model.dropout)
    return encoder(model.encoder, part(p, "encoder"), x, keep)


def bert(model, p, ids, masked=None, keep=None, segment_ids=None):
    h = bert_encoder(model, p, ids, keep, segment_ids)
    h = h if masked is None else h[masked]
    return run(model.readout, part(p, "readout"), h, p["tokens.table"])


def classifier(model, p, ids, keep):
    h = bert_encoder(model.bert, part(p, "bert"), ids, keep[:, None, None])
    if model.first:
        pooled = h[:, 0]
    else:
        pooled = torch.stack([rows[kept].mean(0) for rows, kept in zip(h, keep, strict=True)])
    return linear(model.head, part(p, "head"), pooled)


def gpt(model, p, ids, keep=None):
    x = F.embedding(ids, p["tokens.table"])
    if model.pairs:
        x = run(model.pairs, part(p, "pairs"), x, ids)
    if model.positions:
        x = run(model.positions, part(p, "positions"), x)
    x = F.dropout(x, model.dropout)
    causal = torch.ones(2 * ids.shape[1:], dtype=bool).tril()
    keep = causal if keep is None else causal & keep
    decoder = part(p, "decoder")
    for i, layer in enumerate(model.decoder.layers):
        own = part(decoder, f"layer_{i}")
        x = run(layer.attention, part(own, "attention"), x, keep)
        x = run(layer.feed_forward, part(own, "feed_forward"), x)
    if model.decoder.final_norm:
        x = run(model.decoder.final_norm, part(decoder, "final_norm"), x)
    return run(model.readout, part(p, "readout"), x, p["tokens.table"])


def encoder_decoder(model, p, source, shifted, source_keep=None):
    target_table = p["target_embedding.table"]
    source_table = p.get("source_embedding.table", target_table)

    def embed(ids, table):
        positions = sinusoidal_positions(ids.shape[1], table.shape[1])
        x = F.embedding(ids, table) * table.shape[1] ** 0.5
        return F.dropout(x + torch.tensor(positions).to(x.dtype), model.dropout)

    x = embed(source, source_table)
    encoded = encoder(model.encoder, part(p, "encoder"), x, source_keep)
    keep = torch.ones(2 * shifted.shape[1:], dtype=bool).tril()
    z = embed(shifted, target_table)
    z = decoder(model.decoder, part(p, "decoder"), z, encoded, keep, source_keep)
    return run(model.readout, part(p, "readout"), z, target_table)


TWINS = {
    layers.Linear: linear,
    layers.LoraLinear: lora_linear,
    layers.Pooler: pooler,
    layers.HeadTransform: head_transform,
    layers.LayerNorm: layer_norm,
    layers.RmsNorm: rms_norm,
    layers.FeedForward: feed_forward,
    layers.GatedFeedForward: gated_feed_forward,
    layers.Embedding: embedding,
    layers.LearnedPositions: learned_positions,
    layers.PairTable: pair_table,
    layers.TiedReadout: tied_readout,
    layers.OwnReadout: own_readout,
    layers.MultiHeadSelfAttention: self_attention,
    layers.QkNorm: qk_norm,
    layers.Rotary: rotary_layer,
    layers.MultiHeadCrossAttention: cross_attention,
    layers.Residual: residual,
    layers.EncoderLayer: encoder_layer,
    layers.DecoderLayer: decoder_layer,
    models.Encoder: encoder,
    models.Decoder: decoder,
    Reconstructor: reconstructor,
    models.Bert: bert,
    models.BertEncoder: bert_encoder,
    models.Classifier: classifier,
    models.EncoderDecoder: encoder_decoder,
    models.Gpt: gpt,
}
