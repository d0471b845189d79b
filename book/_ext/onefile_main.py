"""A Transformer encoder in one file: NumPy, and every backward pass written by hand.

    python transformer.py

checks its gradients, then trains a Pre-LN encoder to give back the embeddings of 32 sequences of 16
tokens, in some seconds. It is made from the book Transformers by Hand, which derives the equations
named here, as in (eq:softmax). Every part before the encoder comes from the book's package, from
the file named above it; checks of bad input, masks, dropout, clipping, type hints, comments and
the longer docstrings are left out.

The letters: B sequences of T positions with D numbers each, in H heads of K numbers.
Copyright (c) 2026 The Transformers by Hand authors. SPDX-License-Identifier: MIT
"""

import numpy as np

from transformer_core.gradient_check import complex_step
from transformer_core.ops import (
    attention,
    attention_backward,
    layer_norm,
    layer_norm_backward,
    linear,
    linear_backward,
    mean_squared_error,
    mean_squared_error_backward,
    merge_heads,
    relu,
    relu_backward,
    split_heads,
)
from transformer_core.optim import Adam, warmup_stable_decay
from transformer_core.tasks.reconstruction import Reconstruction

WIDTH, HEADS, HIDDEN_WIDTH, LAYERS = 64, 4, 256, 2
LEARNING_RATE = 3e-3


def draw_parameters(rng, dtype=np.float32):
    """Return the parameters: weights uniform, biases 0, and norms that scale by 1."""
    parameters = {}

    def add_linear(name, width_in, width_out):
        bound = width_in**-0.5
        weight = rng.uniform(-bound, bound, (width_in, width_out))
        parameters[f"{name}.weight"] = weight.astype(dtype)
        parameters[f"{name}.bias"] = np.zeros(width_out, dtype)

    for i in range(LAYERS):
        add_linear(f"{i}.query_key_value", WIDTH, 3 * WIDTH)
        add_linear(f"{i}.attended", WIDTH, WIDTH)
        add_linear(f"{i}.hidden", WIDTH, HIDDEN_WIDTH)
        add_linear(f"{i}.output", HIDDEN_WIDTH, WIDTH)
        for norm in ("attention_norm", "feed_forward_norm"):
            parameters[f"{i}.{norm}.gamma"] = np.ones(WIDTH, dtype)
            parameters[f"{i}.{norm}.beta"] = np.zeros(WIDTH, dtype)
    add_linear("readout", WIDTH, WIDTH)
    return parameters


def forward(x, parameters):
    """Map x (B, T, D) to y (B, T, D) (eq:encoder-layer), with what the backward pass needs."""
    caches = {}

    def run(op, name, x):
        arrays = ("gamma", "beta") if op is layer_norm else ("weight", "bias")
        y, caches[name] = op(x, *(parameters[f"{name}.{array}"] for array in arrays))
        return y

    for i in range(LAYERS):
        normalised = run(layer_norm, f"{i}.attention_norm", x)
        projected = run(linear, f"{i}.query_key_value", normalised)
        parts = (split_heads(part, HEADS) for part in np.split(projected, 3, axis=-1))
        context, caches[f"{i}.attention"] = attention(*parts)
        x = x + run(linear, f"{i}.attended", merge_heads(context))
        normalised = run(layer_norm, f"{i}.feed_forward_norm", x)
        hidden = run(linear, f"{i}.hidden", normalised)
        active, caches[f"{i}.relu"] = relu(hidden)
        x = x + run(linear, f"{i}.output", active)
    return run(linear, "readout", x), caches


def backward(dy, caches):
    """Read the forward pass from its end (eq:chain-backward): the gradient of every parameter."""
    grads = {}

    def run(op, name, dy):
        arrays = ("gamma", "beta") if op is layer_norm_backward else ("weight", "bias")
        dx, *dparameters = op(dy, caches[name])
        for array, grad in zip(arrays, dparameters, strict=True):
            grads[f"{name}.{array}"] = grad
        return dx

    dx = run(linear_backward, "readout", dy)
    for i in reversed(range(LAYERS)):
        dactive = run(linear_backward, f"{i}.output", dx)
        dhidden = relu_backward(dactive, caches[f"{i}.relu"])
        dnormalised = run(linear_backward, f"{i}.hidden", dhidden)
        dx = dx + run(layer_norm_backward, f"{i}.feed_forward_norm", dnormalised)
        dcontext = split_heads(run(linear_backward, f"{i}.attended", dx), HEADS)
        dparts = attention_backward(dcontext, caches[f"{i}.attention"])
        dprojected = np.concatenate([merge_heads(part) for part in dparts], axis=-1)
        dnormalised = run(linear_backward, f"{i}.query_key_value", dprojected)
        dx = dx + run(layer_norm_backward, f"{i}.attention_norm", dnormalised)
    return grads


def loss_and_gradients(inputs, targets, parameters):
    outputs, caches = forward(inputs, parameters)
    loss, cache = mean_squared_error(outputs, targets)
    return loss, backward(mean_squared_error_backward(1, cache), caches)


def check(rng, probes=5):
    """Return the largest relative error of a gradient, by complex steps at a random point."""
    parameters = draw_parameters(rng, complex)
    for array in parameters.values():
        array += 0.1 * rng.normal(size=array.shape)
    inputs, targets = rng.normal(size=(2, 2, 5, WIDTH))
    _, grads = loss_and_gradients(inputs, targets, parameters)
    scale = 1e-3 * max(np.linalg.norm(grad) for grad in grads.values())

    def loss(_):
        return mean_squared_error(forward(inputs, parameters)[0], targets)[0]

    errors = []
    for name, array in parameters.items():
        at = rng.choice(array.size, probes, replace=False)
        measured = complex_step(loss, array, at=at)
        error = np.linalg.norm(grads[name].real.flat[at] - measured)
        errors.append(error / max(np.linalg.norm(measured), scale))
    return max(errors)


def train(epochs=500):
    """Train; return the loss of every epoch, and the errors on the batch and on unseen data."""
    rng = np.random.default_rng(0)
    task = Reconstruction(rng)
    batch, unseen = task.sample(32, rng), task.sample(256, rng)
    parameters = draw_parameters(rng)
    optimizer = Adam(parameters, LEARNING_RATE)
    losses = []
    for epoch in range(1, epochs + 1):
        loss, grads = loss_and_gradients(*batch, parameters)
        optimizer.learning_rate = warmup_stable_decay(
            epoch, epochs, LEARNING_RATE, decay=max(1, epochs // 5)
        )
        optimizer.step(grads)
        losses.append(float(loss))
        if epoch % 50 == 0:
            print(f"epoch {epoch:3}  MSE {loss:.5f}", flush=True)
    errors = [
        mean_squared_error(forward(inputs, parameters)[0], targets)[0]
        for inputs, targets in (batch, unseen)
    ]
    return losses, *errors


def main():
    error = check(np.random.default_rng(1))
    print(f"largest relative error of a gradient  {error:.0e}", flush=True)
    if not error < 1e-9:
        raise SystemExit("a gradient is wrong: no training")
    _, on_batch, on_unseen = train()
    print(f"MSE on the training batch  {on_batch:.5f}")
    print(f"MSE on unseen sequences    {on_unseen:.5f}")


if __name__ == "__main__":
    main()
