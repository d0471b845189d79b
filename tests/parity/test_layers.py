"""Every layer against PyTorch's own, and where PyTorch differs."""

import numpy as np
import pytest
from helpers.cases import IDS, LAYERS
from helpers.witnesses import normal, randomise
from parity.pytorch import tensors
from parity.twins import F, attention_module, attention_state, call, torch

from transformer_core import layers
from transformer_core.layers import Embedding, Layer, MultiHeadSelfAttention
from transformer_core.ops import causal_keep, padding_keep

EQUATIONS = {
    "Linear": "eq:linear-backward",
    "LoraLinear": "eq:lora-backward",
    "Pooler": "eq:pooler-backward",
    "HeadTransform": "eq:head-transform-backward",
    "LayerNorm": "eq:layer-norm-backward",
    "RmsNorm": "eq:rms-norm-backward",
    "FeedForward": "eq:feed-forward-backward",
    "GatedFeedForward": "eq:gated-feed-forward-backward",
    "LearnedPositions": "eq:learned-positions-backward",
    "PairTable": "eq:pair-table-backward",
    "TiedReadout": "eq:tied-readout-backward",
    "MultiHeadSelfAttention": "eq:multi-head-backward",
    "MultiHeadCrossAttention": "eq:cross-attention-backward",
    "Residual, post": "eq:post-ln-backward",
    "Residual, pre": "eq:pre-ln-backward",
    "DecoderLayer": "eq:decoder-layer-backward",
}


def compared():
    for name, case in LAYERS.items():
        equations = [label for start, label in EQUATIONS.items() if name.startswith(start)]
        marks = map(pytest.mark.equation, equations)
        yield pytest.param(case, marks=[*marks], id=name)


@pytest.mark.parametrize("case", [*compared()])
def test_outputs_and_gradients_are_those_of_pytorch(parity, case):
    parity.case(case)


def test_embedding(parity):
    parity.layer(Embedding(7, 3, parity.rng, 1.0, parity.dtype), [], (IDS,))


def test_every_layer_is_compared():
    every = {name: getattr(layers, name) for name in layers.__all__}
    kinds = {n for n, k in every.items() if isinstance(k, type) and issubclass(k, Layer)}
    compared = {name.partition(",")[0] for name in LAYERS} | {"Embedding"}
    assert kinds - compared == {
        "Layer",
        "Rotary",  # within MultiHeadSelfAttention
        "SinusoidalPositions",  # nothing to compute
    }


# Masks: True keeps here, and keeps away there

PADDED = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
FUTURE = torch.ones(5, 5, dtype=bool).triu(diagonal=1)
KEEPS = {
    "padding": (padding_keep(np.array([5, 3]), 5), {"key_padding_mask": PADDED}),
    "causal": (causal_keep(5), {"attn_mask": FUTURE}),
    "both": (
        padding_keep(np.array([5, 3]), 5) & causal_keep(5),
        {"key_padding_mask": PADDED, "attn_mask": FUTURE},
    ),
}


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("keep, masks", KEEPS.values(), ids=KEEPS)
def test_masks_mean_what_they_mean_in_pytorch(parity, keep, masks, need_weights):
    layer = MultiHeadSelfAttention(6, 2, parity.rng, parity.dtype)
    x = normal(parity.rng, (2, 5, 6), parity.dtype)

    def twin(layer, p, x, keep):
        options = masks | {"need_weights": need_weights}
        return call(attention_module(layer), attention_state(p), (x, x, x), options)[0]

    parity.layer(randomise(layer, parity.rng), [x], (keep,), twin)


# Where PyTorch differs


def test_a_decoder_given_a_module_as_activation_has_relu_there():
    """Copies of nn.TransformerDecoderLayer forget it; so the twins are given functions."""
    layer = torch.nn.TransformerDecoderLayer(6, 2, 7, activation=torch.nn.GELU())
    assert isinstance(layer.activation, torch.nn.GELU)
    decoder = torch.nn.TransformerDecoder(layer, num_layers=2)
    assert {copied.activation for copied in decoder.layers} == {F.relu}


@pytest.mark.parametrize("need_weights", [False, True])
def test_with_need_weights_one_empty_query_spoils_all_gradients_there(rng, need_weights):
    """``need_weights=True`` is PyTorch's default, and takes a softmax that gives NaN."""
    layer = randomise(MultiHeadSelfAttention(6, 2, rng, np.float64), rng)
    x, dy, keep = *normal(rng, (2, 2, 5, 6)), ~np.eye(5, dtype=bool)
    keep[2] = False
    dy[:, 2] = 0  # the loss does not even read this query

    module, state = (attention_module(layer), attention_state(tensors(layer.parameters())))
    x_torch, blocked = torch.tensor(x, requires_grad=True), torch.tensor(~keep)
    options = {"attn_mask": blocked, "need_weights": need_weights}
    theirs, _ = call(module, state, (x_torch, x_torch, x_torch), options)
    theirs.backward(torch.tensor(dy))
    assert theirs[:, 2].isnan().all() == need_weights
    assert x_torch.grad.isnan().all() == need_weights

    ours, cache = layer.forward(x, keep)
    assert np.array_equal(ours[:, 2], [layer.output.bias] * 2)
    assert not cache.attention.weights[:, :, 2].any()
    dx, grads = layer.backward(dy, cache)
    assert all(np.isfinite(gradient).all() for gradient in (dx, *grads.values()))
