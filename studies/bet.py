"""The bet of the front page: the encoder that trains in the museum's page, from many starts."""

import math

import numpy as np

from studies.museum import STEPS, planted_or_not
from transformer_core.layers import LayerSpec
from transformer_core.ops import sinusoidal_positions
from transformer_core.optim import Adam
from transformer_core.tasks.reconstruction import Reconstructor

STARTS = range(1, 51)
WRONG = "layer-norm-gamma-outside"
T, D, V, BATCH = 6, 12, 8, 8
AVERAGED = 20  # losses in a point of the curve


class Generator:
    """``core.generator`` of the pages: the same numbers for the same seed."""

    def __init__(self, seed):
        self.state = seed

    def uniform(self):
        self.state = (self.state + 0x6D2B79F5) % 2**32
        t = (self.state ^ self.state >> 15) * (1 | self.state) % 2**32
        t ^= (t + (t ^ t >> 7) * (61 | t)) % 2**32
        return (t ^ t >> 14) / 2**32

    def uniforms(self, *shape):
        return np.array([self.uniform() for _ in range(math.prod(shape))]).reshape(shape)

    def normals(self, *shape):
        pairs = self.uniforms(math.prod(shape), 2).reshape(*shape, 2)
        return np.sqrt(-2 * np.log(1 - pairs[..., 0])) * np.cos(2 * np.pi * pairs[..., 1])


def runs():
    """The settings of every run; no name: the right gradients."""
    for name in (None, WRONG):
        for start in STARTS:
            yield {"name": name, "start": start}


def run(name, start):
    """The loss at which a training ends."""
    return {"end": float(curve(name, start)[-1])}


def curve(name, start):
    """The losses of a training under a mistake, each the mean of the last ones up to there."""
    random = Generator(99 + start)
    model = reconstructor(random)
    table = random.normals(V, D)
    positions = sinusoidal_positions(T, D)
    optimizer, losses = Adam(model.parameters(), 0.01), []
    with planted_or_not(name):
        for _ in range(STEPS):
            tokens = np.floor(random.uniforms(BATCH, T) * V).astype(int)
            x, target = table[tokens] + positions, table[np.roll(tokens, 1, axis=1)]
            loss, grads = model.loss_and_gradients(x, target)
            optimizer.step(grads)
            losses.append(loss)
    return np.array([np.mean(losses[max(0, n - AVERAGED) : n]) for n in range(1, STEPS + 1)])


def reconstructor(random):
    """The page's encoder: scales of 1, biases of 0, weights in the order of the forward pass."""
    spec = LayerSpec(D, 3, 24, "post", dtype="float64")
    model = Reconstructor(spec, 1, np.random.default_rng(0))
    for name, array in model.parameters().items():
        drawn, kind = random.normals(*array.shape), name.rpartition(".")[2]
        array[...] = drawn / np.sqrt(len(array)) if kind == "weight" else kind == "gamma"
    return model
