"""Deep stacks of residual blocks in training: a way lost on the way back, and the first steps."""

from functools import partial

import numpy as np

from transformer_core.layers import LayerSpec, Residual
from transformer_core.ops import mean_squared_error, mean_squared_error_backward
from transformer_core.optim import Adam, warmup_stable_decay
from transformer_core.tasks.reconstruction import Reconstruction, Reconstructor, predict_mean
from transformer_core.training import train

SEEDS = range(5)
STEPS, WIDTH = 150, 32
WATCH = (0, 1, 2, 3, 12, STEPS)

# What a backward pass makes of the two ways.
WAYS = {
    "both ways": np.add,
    "skip forgotten": lambda skip, branch: branch,
    "branch forgotten": lambda skip, branch: skip,
    "skip twice": lambda skip, branch: 2 * skip,
}


def runs():
    """The settings of every run."""
    for seed in SEEDS:
        for placement in ("post", "pre"):
            placed = {"placement": placement, "seed": seed}
            for way in WAYS:
                yield placed | {"layers": 6, "rate": 0.005, "warmup": 50, "way": way}
            for layers, rate, warmup in (
                (12, 0.01, 0),
                (12, 0.01, 50),
                (12, 0.002, 0),
                (2, 0.01, 0),
                (6, 0.01, 0),
            ):
                yield placed | {"layers": layers, "rate": rate, "warmup": warmup}


def run(placement, layers, rate, warmup, seed, way="both ways", steps=STEPS):
    """Train an encoder to give back embeddings; the right backward pass is watched on the way."""
    rng = np.random.default_rng(seed)
    task = Reconstruction(rng, vocabulary=33, length=8, width=WIDTH)
    spec = LayerSpec(WIDTH, 4, 2 * WIDTH, placement)
    model = Reconstructor(spec, layers, rng, final_norm=placement == "pre")
    if way != "both ways":
        for block in blocks(model.encoder):
            block.backward = partial(backward, block, WAYS[way])
    unseen = task.sample(64, rng)
    watched = way == "both ways" and layers == 12
    looks = {"0": look(model, *unseen)} if watched else {}

    def after_step(history):
        if watched and len(history) in WATCH:
            looks[str(len(history))] = look(model, *unseen)

    history = train(
        model.loss_and_gradients,
        Adam(model.parameters(), rate),
        (task.sample(8, rng) for _ in range(steps)),
        steps,
        schedule=lambda step: warmup_stable_decay(step, STEPS, rate, warmup=warmup),
        after_step=after_step,
    )
    outputs, _ = model.forward(unseen[0])
    losses = np.array([record["loss"] for record in history])
    return {
        "first": float(losses[0]),
        "losses": losses.reshape(-1, 10).mean(axis=1).round(5).tolist(),
        "unseen": float(mean_squared_error(outputs, unseen[1])[0]),
        "mean": predict_mean(unseen[1]),
        "looks": looks,
    }


def look(model, x, target):
    """How alike the last positions are, and the gradient of the stream at every depth."""
    y, cache = model.forward(x)
    _, loss_cache = mean_squared_error(y, target)
    dy = mean_squared_error_backward(1, loss_cache)
    dy, _ = model.readout.backward(dy, cache.readout)
    encoder, cache = model.encoder, cache.encoder
    norms = sizes(gradients(encoder, cache, dy))
    direct = sizes(gradients(encoder, cache, dy, WAYS["branch forgotten"]))
    stream = streams(encoder, x)[-1]
    return {
        "alike": correlation(stream),
        "norms": [float(f"{norm / norms[-1]:.4g}") for norm in norms],
        "direct": direct[0] / direct[-1],
        "divisor": max(float(1 / part.norm.inv_std.mean()) for part in block_caches(cache)),
        "size": mean_square(stream) ** 0.5,
    }


def mean_square(a):
    return float((a * a).mean())


def sizes(arrays):
    """Root mean squares."""
    return [mean_square(array.astype(np.float64)) ** 0.5 for array in arrays]


def correlation(a):
    """Mean inner product of two positions of a sequence over the mean square."""
    length = a.shape[1]
    of_means = mean_square(a.mean(axis=1)) / mean_square(a)
    return (length * of_means - 1) / (length - 1)


def blocks(encoder):
    return [block for layer in encoder.layers for block in (layer.attention, layer.feed_forward)]


def block_caches(cache):
    return [part for layer in cache.layers for part in layer]


def streams(encoder, x):
    """The stream after 0, 1, ... blocks."""
    found = [x]
    for block in blocks(encoder):
        found.append(block.forward(found[-1])[0])
    return found


def two_ways(block, dy, cache):
    """The gradient of a block's input along the skip and through the branch; and all others."""
    dx, grads = Residual.backward(block, dy, cache)
    skip = dy if block.pre else block.norm.backward(dy, cache.norm)[0]
    return skip, dx - skip, grads


def gradients(encoder, cache, dy, join=np.add):
    """The gradient of each stream; ``join`` puts the two ways together."""
    if encoder.final_norm:
        dy, _ = encoder.final_norm.backward(dy, cache.final_norm)
    found = [dy]
    for block, part in zip(reversed(blocks(encoder)), reversed(block_caches(cache)), strict=True):
        skip, branch, _ = two_ways(block, found[-1], part)
        found.append(join(skip, branch))
    return found[::-1]


def backward(block, join, dy, cache):
    """A block's backward pass that puts the two ways together wrongly."""
    skip, branch, grads = two_ways(block, dy, cache)
    return join(skip, branch), grads
