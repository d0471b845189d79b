"""Gated and plain feed-forward layers at equal numbers of parameters, on the next byte."""

from functools import cache
from pydoc_data.topics import topics

import numpy as np

from transformer_core.foundation.names import join
from transformer_core.layers import FEED_FORWARDS, Layer, Linear, Residual, RmsNorm
from transformer_core.ops import (
    cross_entropy,
    cross_entropy_backward,
    embedding,
    embedding_backward,
    silu,
    silu_backward,
)
from transformer_core.optim import Adam
from transformer_core.training import train

CONTEXT, STEPS, BATCH = 8, 400, 128
D, PLAIN, GATED = 128, 512, 343  # the same number of parameters
RATES, CHOOSING, SEEDS = (3e-3, 1e-2, 3e-2), 5, range(5)


class Added(Layer):
    """y = (f(x W_g) + x W_v) W_2: the three matrices of SwiGLU without the product."""

    def __init__(self, width, hidden_width, rng, dtype):
        self.gate = Linear(width, hidden_width, rng, dtype, bias=False)
        self.value = Linear(width, hidden_width, rng, dtype, bias=False)
        self.output = Linear(hidden_width, width, rng, dtype, bias=False)

    def forward(self, x, rng=None):
        hidden, gate = self.gate.forward(x)
        active, activation = silu(hidden)
        added, value = self.value.forward(x)
        y, output = self.output.forward(active + added)
        return y, (gate, activation, value, output)

    def backward(self, dy, cache):
        gate, activation, value, output = cache
        dsum, doutput = self.output.backward(dy, output)
        gate_term, dgate = self.gate.backward(silu_backward(dsum, activation), gate)
        value_term, dvalue = self.value.backward(dsum, value)
        grads = {"gate": dgate, "value": dvalue, "output": doutput}
        return gate_term + value_term, join(grads)


ARMS = {
    "ReLU": (FEED_FORWARDS["relu"], PLAIN),
    "GELU": (FEED_FORWARDS["gelu_tanh"], PLAIN),
    "SiLU": (FEED_FORWARDS["silu"], PLAIN),
    "GEGLU": (FEED_FORWARDS["geglu_tanh"], GATED),
    "SwiGLU": (FEED_FORWARDS["swiglu"], GATED),
    "SiLU, 343 units": (FEED_FORWARDS["silu"], GATED),
    "added, not multiplied": (Added, GATED),
}


class NextByte(Layer):
    """Rows of the last bytes side by side, one block, a norm and an output layer."""

    def __init__(self, make, hidden_width, rng):
        self.table = rng.normal(size=(128, D // CONTEXT)).astype(np.float32)
        branch = make(D, hidden_width, rng, np.float32)
        self.block = Residual(branch, RmsNorm(D), "pre")
        self.norm, self.readout = RmsNorm(D), Linear(D, 128, rng)

    def loss_and_gradients(self, ids, rng=None):
        rows, of_rows = embedding(ids[:, :-1], self.table)
        h, of_block = self.block.forward(rows.reshape(len(ids), D))
        normed, of_norm = self.norm.forward(h)
        logits, of_readout = self.readout.forward(normed)
        loss, of_loss = cross_entropy(logits, ids[:, -1])
        grads = {}
        dlogits = cross_entropy_backward(1, of_loss)
        d, grads["readout"] = self.readout.backward(dlogits, of_readout)
        d, grads["norm"] = self.norm.backward(d, of_norm)
        d, grads["block"] = self.block.backward(d, of_block)
        dtable = embedding_backward(d.reshape(rows.shape), of_rows)
        return loss, join(grads) | {"table": dtable}


@cache
def windows():
    """Every nine bytes in a row of Python's help texts: those to train on, and some held out."""
    text = np.frombuffer("".join(topics.values()).encode("ascii", "ignore"), np.uint8)
    rows = np.lib.stride_tricks.sliding_window_view(text, CONTEXT + 1)
    cut = len(rows) * 9 // 10
    return rows[:cut], rows[cut::23].astype(np.int64)


def runs():
    """The settings of every run."""
    for arm in ARMS:
        yield {"arm": arm}


def run(arm):
    """Train at three rates, then five seeds at the best: bits per byte of the held-out text."""
    tried = {rate: bits_per_byte(arm, rate, CHOOSING) for rate in RATES}
    rate = min(tried, key=tried.get)
    return {"rate": rate, "bits": [bits_per_byte(arm, rate, seed) for seed in SEEDS]}


def bits_per_byte(arm, rate, seed):
    """Of the held-out text, after a training."""
    rng = np.random.default_rng(seed)
    training, held_out = windows()
    model = NextByte(*ARMS[arm], rng)

    def batches():
        while True:
            yield (training[rng.integers(0, len(training), BATCH)].astype(np.int64),)

    optimizer = Adam(model.parameters(), learning_rate=rate)
    train(model.loss_and_gradients, optimizer, batches(), STEPS)
    return float(model.loss_and_gradients(held_out)[0] / np.log(2))
