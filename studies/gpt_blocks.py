"""Small GPTs of equal size: with the blocks since 2017, with one of them put back, with none."""

import time
from dataclasses import asdict, replace
from functools import partial

from studies._gpt import layer_of, texts
from transformer_core.layers import NormSpec
from transformer_core.tasks.gpt.recipe import DEFAULTS, build, learning_rate, make_optimizer
from transformer_core.tasks.gpt.windows import bits_per_byte, token_losses, windows
from transformer_core.training import train

SEEDS = range(5)
SINCE = layer_of(128, 384)
# What is put back: what the specification of a layer and that of its attention get instead.
BLOCKS = {
    "norm": ({"norm": NormSpec("layer_norm")}, {}),
    "positions": ({}, {"transform": None}),
    "feed-forward": ({"feed_forward": "relu"}, {}),
    "key heads": ({}, {"key_heads": None}),
    "biases": ({}, {"bias": True}),
}
KINDS = {
    "none": (),
    **{block: (block,) for block in BLOCKS if block != "biases"},
    "all": tuple(BLOCKS),
}
LAYERS, VOCABULARY, BATCH, STEPS = 4, 2048, 8, 500
# In the time of STEPS steps with the blocks since 2017, those of 2017 take more of them.
AS_LONG = 540


def runs():
    """The settings of every run."""
    for seed in SEEDS:
        for kind in KINDS:
            yield {"back": kind, "seed": seed}
        yield {"back": "all", "seed": seed, "steps": AS_LONG}


def settings_of(back, seed, hidden_width=SINCE.hidden_width):
    attention, layer = SINCE.attention, {}
    for block in KINDS[back]:
        in_layer, in_attention = BLOCKS[block]
        layer, attention = layer | in_layer, replace(attention, **in_attention)
    spec = replace(SINCE, attention=attention, hidden_width=hidden_width, **layer)
    sizes = {"layers": LAYERS, "vocabulary": VOCABULARY, "batch": BATCH}
    return DEFAULTS | sizes | {"spec": asdict(spec), "seed": seed}


def size(settings):
    return sum(array.size for array in build(settings).parameters().values())


def of_equal_size(back, seed):
    """The settings with the hidden width F whose number of parameters is nearest."""
    fixed = partial(settings_of, back, seed)
    one, two = size(fixed(1)), size(fixed(2))
    return fixed(1 + round((size(settings_of("none", seed)) - one) / (two - one)))


def run(back, seed, steps=STEPS):
    """One training, and the bits per byte of the held-out names."""
    ids, held_out, sizes = texts(VOCABULARY)
    settings = of_equal_size(back, seed)
    gpt = build(settings)
    start = time.process_time()
    history = train(
        gpt.loss_and_gradients,
        make_optimizer(gpt.parameters(), settings),
        windows(ids, BATCH, settings["length"], seed),
        steps,
        max_norm=settings["max_norm"],
        schedule=lambda step: learning_rate(step, steps, settings["learning_rate"]),
    )
    seconds = time.process_time() - start
    return {
        "parameters": size(settings),
        "hidden width": settings["spec"]["hidden_width"],
        "seconds a step": round(seconds / steps, 4),
        "losses": [round(float(record["loss"]), 3) for record in history[19::20]],
        "bits per byte": round(bits_per_byte(token_losses(gpt, held_out), held_out, sizes), 4),
    }
