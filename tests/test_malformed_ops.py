"""Malformed input to the ops, and to the checks that they share."""

import numpy as np
from malformed import (
    DTYPE,
    RNG,
    Anything,
    Floats,
    Ids,
    Mask,
    Scalar,
    Setting,
    Weights,
    both_tests,
    call,
    positive,
    public_names,
    rate,
    whole,
)

from transformer_core import ops


def backward(op, function, *arguments, **cotangent):
    """A backward pass, after a forward pass that went well."""
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=a) if isinstance(a, tuple) else a for a in arguments]
    _, cache = op(*arrays)
    (name,) = cotangent
    return call(lambda **given: function(given[name], cache), **cotangent)


IDS = np.array([[3, 1, 3], [0, 2, 1]])
QKV = (2, 4, 3, 5), (2, 4, 6, 5), (2, 4, 6, 2)

CALLS = {
    "attention": call(
        ops.attention,
        query=Floats("... T K"),
        key=Floats("... S K"),
        value=Floats("... S V"),
        keep=Mask("... T S"),
        rate=rate(0.1),
        rng=RNG,
    ),
    "attention_backward": backward(
        ops.attention, ops.attention_backward, *QKV, doutput=Floats("2 4 3 2")
    ),
    "causal_keep": call(ops.causal_keep, length=whole(3)),
    "cross_entropy": call(
        ops.cross_entropy,
        logits=Floats("... V"),
        targets=Ids("...", below=9),
        weights=Weights("..."),
        smoothing=rate(0.1),
    ),
    "cross_entropy_backward": backward(
        ops.cross_entropy, ops.cross_entropy_backward, (2, 3, 5), IDS, dloss=Scalar(1.0)
    ),
    "dropout": call(ops.dropout, x=Floats("..."), rate=rate(0.1), rng=RNG),
    "dropout_backward": backward(
        ops.dropout,
        ops.dropout_backward,
        (2, 3),
        0.5,
        np.random.default_rng(1),
        dy=Floats("2 3"),
    ),
    "embedding": call(ops.embedding, ids=Ids("...", below=9), table=Floats("V D")),
    "embedding_backward": backward(
        ops.embedding, ops.embedding_backward, IDS, (7, 4), drows=Floats("2 3 4")
    ),
    "gelu": call(ops.gelu, x=Floats("...")),
    "gelu_backward": backward(ops.gelu, ops.gelu_backward, (2, 3), dy=Floats("2 3")),
    "gelu_tanh": call(ops.gelu_tanh, x=Floats("...")),
    "gelu_tanh_backward": backward(
        ops.gelu_tanh, ops.gelu_tanh_backward, (2, 3), dy=Floats("2 3")
    ),
    "layer_norm": call(
        ops.layer_norm,
        x=Floats("... D"),
        gamma=Floats("D"),
        beta=Floats("D"),
        eps=positive(1e-5),
    ),
    "layer_norm_backward": backward(
        ops.layer_norm, ops.layer_norm_backward, (2, 3, 5), (5,), (5,),
        dy=Floats("2 3 5"),
    ),
    "linear": call(
        ops.linear,
        x=Floats("... I"),
        weight=Floats("I F"),
        bias=Floats("F", optional=True),
    ),
    "linear_backward": backward(
        ops.linear, ops.linear_backward, (2, 3, 5), (5, 4), (4,), dy=Floats("2 3 4")
    ),
    "log_softmax": call(ops.log_softmax, x=Floats("... S")),
    "mean_squared_error": call(
        ops.mean_squared_error, prediction=Floats("..."), target=Floats("...")
    ),
    "mean_squared_error_backward": backward(
        ops.mean_squared_error,
        ops.mean_squared_error_backward,
        (2, 3),
        (2, 3),
        dloss=Scalar(1.0),
    ),
    "merge_heads": call(ops.merge_heads, x=Anything("B H T K")),
    "padding_keep": call(
        ops.padding_keep, lengths=Ids("B", below=4), length=whole(4)
    ),
    "relu": call(ops.relu, x=Floats("...")),
    "relu_backward": backward(ops.relu, ops.relu_backward, (2, 3), dy=Floats("2 3")),
    "sinusoidal_positions": call(
        ops.sinusoidal_positions,
        length=whole(5),
        width=Setting(4, lambda v: v in (2, 2.0) and isinstance(v, int)),
        dtype=DTYPE,
    ),
    "softmax": call(ops.softmax, x=Floats("... T S"), keep=Mask("... T S")),
    "softmax_backward": backward(
        ops.softmax, ops.softmax_backward, (2, 3), dweights=Floats("2 3")
    ),
    "split_heads": call(
        ops.split_heads,
        x=Anything("B T 6"),
        heads=Setting(2, lambda v: isinstance(v, (int, np.integer)) and v in (1, 2, 3)),
    ),
    "tied_readout": call(
        ops.tied_readout, h=Floats("... D"), table=Floats("V D"), bias=Floats("V")
    ),
    "tied_readout_backward": backward(
        ops.tied_readout, ops.tied_readout_backward, (2, 3, 5), (4, 5), (4,),
        dlogits=Floats("2 3 4"),
    ),
}  # fmt: skip


def test_every_public_op_is_in_the_table():
    assert sorted(CALLS) == public_names(ops)


test_valid_calls_pass, test_what_is_malformed_is_named = both_tests(CALLS)
