"""Trainings with the gradients that the source documents print, right or wrong."""

from functools import partial

import numpy as np

from studies.residual import blocks, two_ways
from transformer_core.foundation.names import join
from transformer_core.layers import LayerNorm, LayerSpec, Linear, Residual
from transformer_core.ops import attention_backward, merge_heads, sinusoidal_positions, split_heads
from transformer_core.optim import Adam
from transformer_core.tasks.reconstruction import Reconstructor
from transformer_core.training import train

STEPS, SEEDS = 300, range(5)


def heads_backward(doutput, cache, softmax_gradient):
    """The backward pass of attention, with a gradient of softmax of your choice."""
    query, key, value, weights, *_ = cache
    dvalue = weights.swapaxes(-1, -2) @ doutput
    dscores = softmax_gradient(weights, doutput @ value.swapaxes(-1, -2))
    dscores = dscores / np.sqrt(query.shape[-1])
    return dscores @ key, dscores.swapaxes(-1, -2) @ query, dvalue


def row_sum(a, g):
    return a * (g - a * g.sum(axis=-1, keepdims=True))


def uncoupled(a, g):
    return a * g


def scrambled(x, dy):
    return x.transpose(0, 2, 1).reshape(x.shape[-1], -1) @ dy.reshape(-1, dy.shape[-1])


def from_norm_alone(block, dy, cache):
    skip, _, grads = two_ways(block, dy, cache)
    return skip, grads


def branch_alone(block, dy, cache):
    _, branch, grads = two_ways(block, dy, cache)
    return branch, grads


def scale_term_alone(norm, dy, cache):
    _, grads = LayerNorm.backward(norm, dy, cache)
    return dy * cache.gamma * cache.inv_std, grads


def mean_without_sum(norm, dy, cache):
    """002.1: the gradient of the mean lacks its sum."""
    _, grads = LayerNorm.backward(norm, dy, cache)
    g = dy * cache.gamma * cache.inv_std
    along = (g * cache.x_hat).mean(axis=-1, keepdims=True)
    return g - cache.x_hat * along - g / g.shape[-1], grads


def gamma_outside(dy, cache):
    x_hat, inv_std, gamma = cache
    means = dy.mean(axis=-1, keepdims=True), (dy * x_hat).mean(axis=-1, keepdims=True)
    return gamma * inv_std * (dy - means[0] - x_hat * means[1])


def norm_with_gamma_outside(norm, dy, cache):
    """004.2: the scale stands outside the means."""
    _, grads = LayerNorm.backward(norm, dy, cache)
    return gamma_outside(dy, cache), grads


def before_projection(layer, dy, heads_gradient, dcontext, cache):
    """The backward pass of self-attention, from the gradients of its heads on."""
    _, doutput = layer.output.backward(dy, cache.output)
    parts = heads_gradient(split_heads(dcontext, layer.heads), cache.attention)
    dprojected = np.concatenate([merge_heads(part) for part in parts], axis=-1)
    dx, dprojection = layer.query_key_value.backward(dprojected, cache.query_key_value)
    return dx, join({"query_key_value": dprojection, "output": doutput})


def with_softmax(softmax_gradient, layer, dy, cache):
    dcontext, _ = layer.output.backward(dy, cache.output)
    gradient = partial(heads_backward, softmax_gradient=softmax_gradient)
    return before_projection(layer, dy, gradient, dcontext, cache)


def after_projection_alone(layer, dy, cache):
    """000.2: the gradient after the output projection, taken for the one before it."""
    return before_projection(layer, dy, attention_backward, dy, cache)


def scrambled_weight(layer, dy, cache):
    dx, grads = Linear.backward(layer, dy, cache)
    return dx, grads | {"weight": scrambled(cache.x, dy)}


def linears(model):
    found = [model.readout]
    for block in blocks(model.encoder):
        found += block.branch.sublayers().values()
    return found


def of_blocks(model):
    return blocks(model.encoder)


def of_norms(model):
    return [block.norm for block in blocks(model.encoder)]


def of_attention(model):
    return [one.attention.branch for one in model.encoder.layers]


VARIANTS = {
    "right": (of_blocks, Residual.backward),
    "001: LayerNorm's scale term alone": (of_norms, scale_term_alone),
    "001: softmax without coupling": (of_attention, partial(with_softmax, uncoupled)),
    "001: gradient from the norm alone": (of_blocks, from_norm_alone),
    "without the skip connection": (of_blocks, branch_alone),
    "000.1: softmax, row sum": (of_attention, partial(with_softmax, row_sum)),
    "000.2: values, after $W^O$": (of_attention, after_projection_alone),
    "001.2: weights, scrambled": (linears, scrambled_weight),
    "002.1: LayerNorm, no sum": (of_norms, mean_without_sum),
    "004.2: LayerNorm, $\\gamma$ outside": (of_norms, norm_with_gamma_outside),
}


def runs():
    """The settings of every run."""
    for variant in VARIANTS:
        yield {"variant": variant}


def run(variant):
    """The first losses, and the mean of the last twenty, of five trainings."""
    losses = [trained(variant, seed) for seed in SEEDS]
    return {
        "first": [one[0] for one in losses],
        "last": [float(np.mean(one[-20:])) for one in losses],
    }


def trained(variant, seed):
    """The losses of a training; the task is to reproduce the embedding of the token before."""
    parts, backward = VARIANTS[variant]
    rng = np.random.default_rng(seed)
    model = Reconstructor(LayerSpec(32, 2, 64, "post"), 2, rng)
    for part in parts(model):
        part.backward = partial(backward, part)
    table = rng.normal(size=(16, 32)).astype(np.float32)
    positions = sinusoidal_positions(8, 32, np.float32)

    def sample():
        tokens = rng.integers(16, size=(16, 8))
        return table[tokens] + positions, table[np.roll(tokens, 1, axis=1)]

    batches = (sample() for _ in range(STEPS))
    optimizer = Adam(model.parameters(), 3e-3)
    history = train(model.loss_and_gradients, optimizer, batches, STEPS)
    return [record["loss"] for record in history]
