"""Networks of three widths, trained at many rates, by one rate for all arrays or by μP.

The controls take the rules apart: μP's rates without its smaller output weights; the narrow
model's rate divided for every array; and, at the largest width, one rate for the first matrix and
the biases and another for the matrices behind it.
"""

import numpy as np

from transformer_core.layers import Linear
from transformer_core.ops import (
    mean_squared_error,
    mean_squared_error_backward,
    relu,
    relu_backward,
)
from transformer_core.optim import Adam
from transformer_practice.exercises.width import width_rates

SEEDS = range(5)
WIDTHS = 32, 128, 512
BASE = WIDTHS[0]
RATES = tuple(2.0**k for k in range(-11, -2))
RULES = "one rate", "μP"
RATES_ALONE, ALL_DIVIDED, TWO_RATES = "μP's rates alone", "every rate divided", "two rates"
NARROW_BEST = 2.0**-5  # the best rate of the smallest width
WIDE_BEST = 2.0**-8  # the best single rate of the largest width
APART = (  # from there: a higher rate for the first matrix and the biases, or a lower one behind
    *((2.0**k, WIDE_BEST) for k in range(-7, -3)),
    *((WIDE_BEST, 2.0**k) for k in (-9, -10)),
)
STEPS, INPUTS, BATCH = 200, 16, 64


def runs():
    """The settings of every run."""
    for seed in SEEDS:
        for width in WIDTHS:
            for rule in RULES:
                for rate in RATES:
                    yield {"width": width, "rule": rule, "rate": rate, "seed": seed}
    for seed in SEEDS:
        for width in WIDTHS[1:]:
            for rate in RATES[4:]:
                yield {"width": width, "rule": RATES_ALONE, "rate": rate, "seed": seed}
        width = WIDTHS[-1]
        yield {"width": width, "rule": ALL_DIVIDED, "rate": NARROW_BEST, "seed": seed}
        for rate, later in APART:
            pair = {"rate": rate, "later_rate": later}
            yield {"width": width, "rule": TWO_RATES, **pair, "seed": seed}


class Network:
    """Two hidden layers with ReLU, and one number as the output."""

    def __init__(self, width, rng):
        sizes = INPUTS, width, width, 1
        pairs = zip(sizes, sizes[1:], strict=False)
        self.layers = [Linear(d_in, d_out, rng) for d_in, d_out in pairs]

    def parameters(self):
        return {
            f"{i}.{name}": array
            for i, layer in enumerate(self.layers)
            for name, array in layer.parameters().items()
        }

    def forward(self, x):
        caches = []
        for layer in self.layers[:-1]:
            x, layer_cache = layer.forward(x)
            x, relu_cache = relu(x)
            caches.append((layer_cache, relu_cache))
        y, last = self.layers[-1].forward(x)
        return y, (caches, last)

    def backward(self, dy, cache):
        caches, last = cache
        dx, grads = self.layers[-1].backward(dy, last)
        found = {f"{len(caches)}.{name}": grad for name, grad in grads.items()}
        for i in reversed(range(len(caches))):
            layer_cache, relu_cache = caches[i]
            dx, grads = self.layers[i].backward(relu_backward(dx, relu_cache), layer_cache)
            found |= {f"{i}.{name}": grad for name, grad in grads.items()}
        return found


def drawn_target(rng):
    """The function to learn: eight random hidden units."""
    hidden, out = rng.normal(size=(INPUTS, 8)) / INPUTS**0.5, rng.normal(size=(8, 1))
    return lambda x: (np.tanh(2 * x @ hidden) @ out).astype(np.float32)


def prepared(width, rule, rate, rng):
    """A network and an optimiser for each of its arrays, with the rates of a rule."""
    network, narrow = Network(width, rng), Network(BASE, rng)
    parameters = network.parameters()
    rates = dict.fromkeys(parameters, rate)
    if rule == "μP":
        rates = width_rates(parameters, narrow.parameters(), rate)
        network.layers[-1].weight *= (BASE / width) ** 0.5
    return network, [Adam({name: array}, rates[name]) for name, array in parameters.items()]


def made(width, rule, rate, rng, later_rate=None):
    """As ``prepared``, by any rule, those of the controls included."""
    basis = {RATES_ALONE: "μP", ALL_DIVIDED: "μP", TWO_RATES: "one rate"}.get(rule, rule)
    network, optimizers = prepared(width, basis, rate, rng)
    if rule == RATES_ALONE:
        network.layers[-1].weight /= (BASE / width) ** 0.5
    for optimizer in optimizers:
        if rule == ALL_DIVIDED:
            optimizer.learning_rate = rate * BASE / width
        elif rule == TWO_RATES and optimizer.parameters.keys() & {"1.weight", "2.weight"}:
            optimizer.learning_rate = later_rate
    return network, optimizers


def step(network, optimizers, x, y):
    """One step on a batch."""
    found, cache = network.forward(x)
    _, loss_cache = mean_squared_error(found, y)
    grads = network.backward(mean_squared_error_backward(1, loss_cache), cache)
    for optimizer in optimizers:
        optimizer.step({name: grads[name] for name in optimizer.parameters})


def run(width, rule, rate, seed, later_rate=None, steps=STEPS):
    """One training on fresh batches; the error is that on inputs that it never sees."""
    rng = np.random.default_rng(seed)
    target = drawn_target(rng)
    unseen = rng.normal(size=(512, INPUTS)).astype(np.float32)
    batches = rng.normal(size=(steps, BATCH, INPUTS)).astype(np.float32)
    network, optimizers = made(width, rule, rate, rng, later_rate)
    for x in batches:
        step(network, optimizers, x, target(x))
    error, _ = mean_squared_error(network.forward(unseen)[0], target(unseen))
    return {"unseen": round(float(error), 5), "mean": round(float(target(unseen).var()), 5)}
