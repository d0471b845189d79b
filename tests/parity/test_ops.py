"""Every op against PyTorch's own, and where PyTorch differs."""

import numpy as np
import pytest
from helpers.cases import CROSS_ENTROPY, OPS, TARGETS, Op
from helpers.witnesses import generators, sizes
from hypothesis import given
from parity.pytorch import F, tensors, torch
from parity.twins import rotary

from transformer_core import ops

CLASS_WEIGHTS = np.array([0.5, 2.0, 1.0, 0.1, 3.0])
COUNTED = np.array([[True, True, False], [False, True, True]])


def softmax(x, keep=None):
    """The softmax that PyTorch has for attention: it knows rows that keep nothing."""
    scores = x if keep is None else x.masked_fill(~keep, -torch.inf)
    return torch._safe_softmax(scores, dim=-1)


def attention(query, key, value, keep):
    return F.scaled_dot_product_attention(query, key, value, keep)


def attention_with_dropout(query, key, value, keep):
    return F.scaled_dot_product_attention(query, key, value, keep, dropout_p=0.3)


def contrastive_loss(query, key, temperature):
    return F.cross_entropy(query @ key.T / temperature, torch.arange(len(query)))


def cross_entropy(logits, targets, weights=None, smoothing=0.0, **options):
    rows, targets = logits.flatten(0, -2), targets.flatten()
    options["label_smoothing"] = smoothing
    if weights is None:
        return F.cross_entropy(rows, targets, **options)
    losses = F.cross_entropy(rows, targets, reduction="none", **options)
    weights = weights.flatten().to(losses)
    return losses @ weights / weights.sum()


def class_weighted(logits, targets, weights):
    return cross_entropy(logits, targets, weight=torch.tensor(CLASS_WEIGHTS).to(logits))


def partly_ignored(logits, targets, weights):
    return cross_entropy(logits, targets.where(weights, -100), ignore_index=-100)


def mean_pool(x, keep=None):
    """What sentence encoders do: a sum under the mask, by at least one row."""
    if keep is None:
        return x.mean(dim=1)
    mask = keep.unsqueeze(-1).to(x)
    return (x * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)


TWINS = {
    "attention": attention,
    "attention with dropout": attention_with_dropout,
    "contrastive_loss": contrastive_loss,
    "cross_entropy": cross_entropy,
    "cross_entropy, class weights": class_weighted,
    "cross_entropy, ignored targets": partly_ignored,
    "dropout": lambda x: F.dropout(x, 0.3),
    "embedding": lambda table, ids: F.embedding(ids, table),
    "gated_product": torch.mul,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "grouped_attention": lambda query, key, value, keep: attention(
        query, *(a.repeat_interleave(3, dim=1) for a in (key, value)), keep
    ),
    "l2_normalize": lambda x: F.normalize(x, dim=-1),
    "layer_norm": lambda x, gamma, beta, eps: F.layer_norm(x, x.shape[-1:], gamma, beta, eps),
    "linear": lambda x, weight, bias=None: F.linear(x, weight.T, bias),
    "low_rank": lambda x, a, b, alpha: alpha / len(b) * F.linear(F.linear(x, a.T), b.T),
    "mean_pool": mean_pool,
    "mean_squared_error": F.mse_loss,
    "merge_heads": lambda x: x.transpose(1, 2).flatten(2),
    "relu": F.relu,
    "rms_norm": lambda x, gamma, eps: F.rms_norm(x, x.shape[-1:], gamma, eps),
    "rotary": rotary,
    "silu": F.silu,
    "tanh": torch.tanh,
    "soft_cap": lambda x, cap: cap * torch.tanh(x / cap),
    "softmax": softmax,
    "split_heads": lambda x: x.unflatten(-1, (3, 2)).transpose(1, 2),
    "tied_readout": F.linear,
    "tiled_attention": lambda query, key, value, keep, tile: attention(query, key, value, keep),
}


def more_ops():
    """What the table of the other tests lacks."""
    for name, settings in {
        "class weights": {"weights": CLASS_WEIGHTS[TARGETS]},
        "ignored targets": {"weights": COUNTED},
        "smoothing": {"smoothing": 0.1},
        "weights, smoothing": {"weights": COUNTED, "smoothing": 0.1},
    }.items():
        settings["targets"] = TARGETS
        yield f"cross_entropy, {name}", CROSS_ENTROPY._replace(settings=settings)

    # PyTorch has another kernel for values as wide as the keys.
    for name, op in OPS.items():
        if name.startswith("attention,"):
            shapes = op.shapes | {"value": op.shapes["key"]}
            yield f"{name}, one width", op._replace(shapes=shapes)

    shapes = {"x": (2, 3, 4), "weight": (4, 5)}
    first_two = Op(ops.linear, lambda *args: ops.linear_backward(*args)[:2], shapes)
    yield "linear, no bias", first_two

    def split(x):
        return ops.split_heads(x, 3), None

    def merge(x):
        return ops.merge_heads(x), None

    yield "split_heads", Op(split, lambda dy, _: merge(dy)[0], {"x": (2, 5, 6)})
    yield "merge_heads", Op(merge, lambda dy, _: split(dy)[0], {"x": (2, 3, 5, 2)})


def equation(op):
    """The label of an op's gradient."""
    op, _, addition = op.replace("_", "-").partition(" with ")
    return "-".join(filter(None, [f"eq:{op}", "backward", addition]))


def compared():
    for name, op in (OPS | dict(more_ops())).items():
        base = name.partition(",")[0]
        mark = pytest.mark.equation(equation(base))
        yield pytest.param(op, TWINS.get(name, TWINS[base]), marks=mark, id=name)


@pytest.mark.parametrize("op, twin", [*compared()])
def test_outputs_and_gradients_are_those_of_pytorch(parity, op, twin):
    parity.op(op, twin)


# What has no gradient


@given(sizes)
def test_causal_mask(length):
    blocked = torch.nn.Transformer.generate_square_subsequent_mask(length).isinf()
    assert np.array_equal(ops.causal_keep(length), ~blocked.numpy())


@given(generators, sizes, sizes)
def test_padding_mask(rng, batch, length):
    lengths = rng.integers(1, length + 1, batch)
    ones = [torch.ones(n, dtype=bool) for n in (length, *lengths)]
    keep = torch.nn.utils.rnn.pad_sequence(ones, batch_first=True)[1:]
    assert np.array_equal(ops.padding_keep(lengths, length)[:, 0, 0], keep.numpy())


def test_sinusoidal_positions():
    exponents = torch.arange(0, 6, 2, dtype=torch.float64) / 6
    angles = torch.outer(torch.arange(50.0, dtype=torch.float64), 10000**-exponents)
    table = torch.polar(torch.ones_like(angles), angles)
    expected = torch.stack([table.imag, table.real], dim=-1).flatten(1)
    assert np.allclose(ops.sinusoidal_positions(50, 6), expected, rtol=0, atol=1e-14)


def test_log_softmax():
    """Its backward pass is that of the cross-entropy."""
    x = np.random.default_rng(0).normal(0, 30, (2, 3, 5))
    theirs = torch.log_softmax(torch.tensor(x), dim=-1).numpy()
    assert np.allclose(ops.log_softmax(x), theirs, rtol=1e-14)


# Where PyTorch differs: a query that may attend to nothing


def empty_row(rng):
    x, keep = rng.normal(size=(2, 3)), np.array([[False] * 3, [True, False, True]])
    return x, keep, tensors([x, keep])


def test_pytorch_softmax_of_an_empty_row_is_nan_and_ours_is_zero(rng):
    x, keep, (x_torch, keep_torch) = empty_row(rng)
    leaf = x_torch.requires_grad_()
    theirs = torch.softmax(leaf.masked_fill(~keep_torch, -torch.inf), dim=-1)
    theirs.backward(torch.ones_like(theirs))
    assert theirs[0].isnan().all()
    ours, cache = ops.softmax(x, keep)
    dx = ops.softmax_backward(np.ones_like(x), cache)
    assert not ours[0].any() and not dx[0].any()
    assert np.allclose(ours[1], theirs[1].detach(), rtol=1e-15)
