"""The contenders: each is built for a batch size and a number of threads, and then steps."""

import os
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import cycle
from shutil import which
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.work import (
    HEADS,
    HIDDEN,
    LAYERS,
    LEARNING_RATE,
    LENGTH,
    MAX_NORM,
    PARAMETERS,
    VOCABULARY,
    WIDTH,
    draw_batches,
)


def mini_bert():
    """Build the model."""
    from transformer_core.layers import AttentionSpec, LayerSpec
    from transformer_core.models import Bert, StackSpec

    rng = np.random.default_rng(0)
    spec = LayerSpec(WIDTH, AttentionSpec(HEADS, bias=False), HIDDEN, "post")
    model = Bert(spec, StackSpec(VOCABULARY, LENGTH, LAYERS), rng)
    assert sum(array.size for array in model.parameters().values()) == PARAMETERS
    return model


def read_out(batch):
    """Draw the batches with the targets and positions of the masked tokens alone, as (M,)."""
    return [
        (ids, targets[masked], np.flatnonzero(masked))
        for ids, targets, masked in draw_batches(batch)
    ]


def masked_tokens(ids, targets, masked):
    return masked.sum()


def data_parallel(batch, threads):
    """Step with the batch in shards, one a thread, on as many ranks as there are."""
    step, _ = step_in_parallel(mini_bert(), batch, threads)
    return step


def step_in_parallel(model, batch, threads):
    """Return a step, and its optimiser."""
    from transformer_core.distributed import DataParallel
    from transformer_core.optim import Adam
    from transformer_core.ranks import world

    in_parallel = DataParallel(model, masked_tokens, threads, world())
    optimizer = Adam(model.parameters(), LEARNING_RATE, map=in_parallel.map)
    return package_step(in_parallel.loss_and_gradients, optimizer, draw_batches(batch)), optimizer


def whole_batch(batch, threads):
    """Step with the whole batch at once: only the matrix products use more than one thread."""
    from transformer_core.optim import Adam

    threadpool_limits(threads)
    model = mini_bert()
    optimizer = Adam(model.parameters(), LEARNING_RATE)
    return package_step(model.loss_and_gradients, optimizer, draw_batches(batch))


def package_step(loss_and_gradients, optimizer, batches):
    """Return a step of this package, which takes the batches in turn."""
    turns = cycle(batches)

    def step():
        _, grads = loss_and_gradients(*next(turns))
        optimizer.step(grads, MAX_NORM)

    return step


def matrix_products(batch, threads):
    """Multiply what a step multiplies, and do nothing else."""
    threadpool_limits(threads)
    rng = np.random.default_rng(0)

    def draw(*shape):
        return rng.normal(size=shape).astype(np.float32)

    def linear(rows, width_in, width_out):
        x, weight, dy = (draw(rows, width_in), draw(width_in, width_out), draw(rows, width_out))
        return [(x, weight), (dy, weight.T), (x.T, dy)]

    def attention():
        query, key, value, doutput = (draw(batch, HEADS, LENGTH, WIDTH // HEADS) for _ in range(4))
        weights, dscores = (draw(batch, HEADS, LENGTH, LENGTH) for _ in range(2))
        forward = [(query, key.swapaxes(-1, -2)), (weights, value)]
        return forward + [
            (weights.swapaxes(-1, -2), doutput),
            (doutput, value.swapaxes(-1, -2)),
            (dscores, key),
            (dscores.swapaxes(-1, -2), query),
        ]

    rows = batch * LENGTH
    masked = np.mean([masked_tokens(*b) for b in draw_batches(batch)])
    products = linear(round(masked), WIDTH, VOCABULARY)
    for _ in range(LAYERS):
        products += linear(rows, WIDTH, 3 * WIDTH) + linear(rows, WIDTH, WIDTH)
        products += linear(rows, WIDTH, HIDDEN) + linear(rows, HIDDEN, WIDTH)
        products += attention()
    results = [left @ right for left, right in products]

    def step():
        for (left, right), result in zip(products, results, strict=True):
            np.matmul(left, right, out=result)

    return step


def jax_compiled(batch, threads):
    """Step in JAX: forward, gradient, clipping and Adam compiled into one, the buffers donated.

    Compiled once for each number of masked tokens, so that no padding is multiplied.
    """
    os.environ["NPROC"] = str(threads)  # read when the library starts its threads
    import jax
    import jax.numpy as jnp

    def normal(key, *shape):
        return 0.02 * jax.random.normal(key, shape)

    def norm():
        return {"gamma": jnp.ones(WIDTH), "beta": jnp.zeros(WIDTH)}

    def initial(key):
        keys = iter(jax.random.split(key, 3 + 4 * LAYERS))
        return {
            "tokens": normal(next(keys), VOCABULARY, WIDTH),
            "positions": normal(next(keys), LENGTH, WIDTH),
            "layers": [
                {
                    "query_key_value": normal(next(keys), WIDTH, 3 * WIDTH),
                    "output": normal(next(keys), WIDTH, WIDTH),
                    "norm": norm(),
                    "hidden": normal(next(keys), WIDTH, HIDDEN),
                    "hidden_bias": jnp.zeros(HIDDEN),
                    "out": normal(next(keys), HIDDEN, WIDTH),
                    "out_bias": jnp.zeros(WIDTH),
                    "last_norm": norm(),
                }
                for _ in range(LAYERS)
            ],
            "norm": norm(),
            "readout": normal(next(keys), WIDTH, VOCABULARY),
            "readout_bias": jnp.zeros(VOCABULARY),
        }

    def layer_norm(x, gamma, beta):
        centered = x - x.mean(-1, keepdims=True)
        variance = (centered * centered).mean(-1, keepdims=True)
        return gamma * centered * jax.lax.rsqrt(variance + 1e-5) + beta

    def layer(x, p):
        heads = (x @ p["query_key_value"]).reshape(batch, LENGTH, 3, HEADS, -1)
        query, key, value = heads.transpose(2, 0, 3, 1, 4)
        scores = query @ key.swapaxes(-1, -2) / (WIDTH // HEADS) ** 0.5
        context = jax.nn.softmax(scores) @ value
        context = context.swapaxes(1, 2).reshape(batch, LENGTH, WIDTH)
        x = layer_norm(x + context @ p["output"], **p["norm"])
        hidden = jax.nn.relu(x @ p["hidden"] + p["hidden_bias"])
        return layer_norm(x + hidden @ p["out"] + p["out_bias"], **p["last_norm"])

    def loss(p, ids, targets, masked):
        x = p["tokens"][ids] + p["positions"]
        for parameters in p["layers"]:
            x = layer(x, parameters)
        h = layer_norm(x, **p["norm"]).reshape(-1, WIDTH)[masked]
        logits = h @ p["readout"] + p["readout_bias"]
        at_target = jnp.take_along_axis(logits, targets[:, None], axis=-1)[:, 0]
        return (jax.nn.logsumexp(logits, axis=-1) - at_target).mean()

    parameters = initial(jax.random.key(0))
    assert sum(p.size for p in jax.tree.leaves(parameters)) == PARAMETERS
    return jax_step(loss, parameters, read_out(batch))


def jax_step(loss, parameters, batches, beta2=0.999, decay=None):
    """Compile the step of a loss in JAX, and return it: gradient, clipping and Adam, or AdamW.

    ``decay`` has the rate of every parameter. Default: none.
    """
    import jax
    import jax.numpy as jnp

    decay = decay or jax.tree.map(lambda _: 0.0, parameters)

    @partial(jax.jit, donate_argnums=0)
    def update(state, *batch):
        parameters, m, v, t = state
        value, grads = jax.value_and_grad(loss)(parameters, *batch)
        square = sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads))
        factor = MAX_NORM / jnp.maximum(jnp.sqrt(square), MAX_NORM)
        t = t + 1

        def adam(p, g, m, v, rate):
            m = 0.9 * m + 0.1 * factor * g
            v = beta2 * v + (1 - beta2) * (factor * g) ** 2
            m_hat, v_hat = m / (1 - 0.9**t), v / (1 - beta2**t)
            p = p * (1 - LEARNING_RATE * rate)
            return p - LEARNING_RATE * m_hat / (jnp.sqrt(v_hat) + 1e-8), m, v

        updated = jax.tree.map(adam, parameters, grads, m, v, decay)
        parameters, m, v = jax.tree.transpose(
            jax.tree.structure(parameters), jax.tree.structure((0, 0, 0)), updated
        )
        return (parameters, m, v, t), value

    moments = (jax.tree.map(jnp.zeros_like, parameters) for _ in range(2))
    state = (parameters, *moments, jnp.zeros(()))
    turns = cycle([tuple(a.astype(np.int32) for a in arrays) for arrays in batches])

    def step():
        nonlocal state
        state, value = jax.block_until_ready(update(state, *next(turns)))
        return float(value)

    return step


def pytorch(batch, threads, compiled=False, **adam):
    """Step in PyTorch with its own fast modules.

    It is eager, or compiled once for each number of masked tokens; ``adam`` may say that the
    optimiser is fused into one kernel.
    """
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.set_num_threads(threads)
    torch.manual_seed(0)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.query_key_value = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
            self.output = nn.Linear(WIDTH, WIDTH, bias=False)
            self.hidden, self.out = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)
            self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])

        def forward(self, x):
            heads = self.query_key_value(x).view(batch, LENGTH, 3, HEADS, -1)
            query, key, value = heads.permute(2, 0, 3, 1, 4)
            context = F.scaled_dot_product_attention(query, key, value)
            context = context.transpose(1, 2).reshape(batch, LENGTH, WIDTH)
            x = self.norms[0](x + self.output(context))
            return self.norms[1](x + self.out(F.relu(self.hidden(x))))

    class MiniBert(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(VOCABULARY, WIDTH)
            self.positions = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
            self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
            self.norm = nn.LayerNorm(WIDTH)
            self.readout = nn.Linear(WIDTH, VOCABULARY)

        def forward(self, ids, targets, masked):
            h = self.norm(self.layers(self.tokens(ids) + self.positions))
            return F.cross_entropy(self.readout(h.view(-1, WIDTH)[masked]), targets)

    model = MiniBert()
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE, **adam)
    loss = torch.compile(model, dynamic=False) if compiled else model
    batches = [tuple(map(torch.from_numpy, arrays)) for arrays in read_out(batch)]
    return torch_step(model, loss, optimizer, batches)


def torch_step(model, loss, optimizer, batches):
    """Return a step in PyTorch, which takes the batches in turn."""
    from torch.nn.utils import clip_grad_norm_

    turns = cycle(batches)

    def step():
        optimizer.zero_grad()
        loss(*next(turns)).backward()
        clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()

    return step


def compiler():
    """Return the path of the C++ compiler that ``torch.compile`` calls; None: there is none."""
    return which(os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++"))


class Contender(NamedTuple):
    build: Callable
    how: str
    package: str | None = None  # that has to be installed
    compiles: bool = False

    def missing(self):
        """Return what the contender cannot do without and this machine has not, or None."""
        if self.package and find_spec(self.package) is None:
            return self.package
        return "a C++ compiler" if self.compiles and compiler() is None else None


CONTENDERS = {
    "this package": Contender(data_parallel, "eager, two shards"),
    "this package, whole batch at once": Contender(whole_batch, "eager, one shard"),
    "JAX": Contender(jax_compiled, "compiled, one shard", "jax"),
    "PyTorch, compiled": Contender(
        partial(pytorch, compiled=True, fused=True), "compiled, one shard", "torch", compiles=True
    ),
    "PyTorch, fused Adam": Contender(partial(pytorch, fused=True), "eager, one shard", "torch"),
    "PyTorch, default Adam": Contender(pytorch, "eager, one shard", "torch"),
    "matrix products alone": Contender(matrix_products, "the floor, one shard"),
}
