"""A small GPT trained with numbers of few bits, simulated; afterwards its matrices in 8 bits."""

from dataclasses import asdict
from functools import partial

import numpy as np

from studies._gpt import layer_of, texts
from transformer_core.ops import round_rows, round_to
from transformer_core.ops.rounding import FORMATS
from transformer_core.optim import LossScale, unscale
from transformer_core.tasks.gpt.recipe import DEFAULTS, build, learning_rate, make_optimizer
from transformer_core.tasks.gpt.windows import bits_per_byte, token_losses, windows
from transformer_core.training import few_bits, train

SEEDS = range(5)
SPEC = layer_of(32, 96)
SIZES = {"layers": 2, "vocabulary": 260, "length": 32, "batch": 4, "optimizer": "adamw"}
STEPS = 120
SMALL = 2.0**-12  # as if the mean were over 4096 times as many tokens
KINDS = (
    "float32",
    "bfloat16",
    "bfloat16, no master weights",
    "bfloat16, no master weights, stochastic",
    "float16",
    "float16, small gradients",
    "float16, small gradients, scaled loss",
    "float8 factors",
    "float8 factors, scaled",
)


def runs():
    """The settings of every run."""
    for seed in SEEDS:
        for kind in KINDS:
            yield {"kind": kind, "seed": seed}


def scaled(x, format):
    """Round an array whose largest entry has been brought to the largest number of a format."""
    factor = FORMATS[format].largest / max(np.abs(x).max(), np.finfo(x.dtype).tiny)
    factor = 2.0 ** np.floor(np.log2(min(factor, 2.0**100))).astype(x.dtype)
    return round_to(x * factor, format) / factor


def of_a_large_batch(loss_and_gradients, scaling):
    """The gradients, computed SMALL times as large, with a scale of the loss or without."""

    def small(*batch, rng=None, dloss=1.0):
        return loss_and_gradients(*batch, rng=rng, dloss=SMALL * dloss)

    computed = LossScale(small, patience=50) if scaling else small

    def as_large_as_ever(*batch, rng=None):
        loss, grads = computed(*batch, rng=rng)
        return loss, unscale(grads, SMALL)

    return as_large_as_ever


def gradients(kind, gpt):
    """The ``loss_and_gradients`` of a kind."""
    bfloat16, float16 = (partial(round_to, format=name) for name in ("bfloat16", "float16"))
    if kind == "float32":
        return gpt.loss_and_gradients
    if kind.startswith("bfloat16"):
        return few_bits(gpt, bfloat16)
    if kind == "float16":
        return few_bits(gpt, float16)
    if kind.startswith("float16"):
        return of_a_large_batch(few_bits(gpt, float16), kind.endswith("scaled loss"))
    rounding = scaled if kind.endswith("scaled") else round_to
    return few_bits(gpt, bfloat16, partial(rounding, format="float8_e4m3fn"))


def run(kind, seed, steps=STEPS):
    """One training, and the bits per byte of the held-out names, computed in float32."""
    ids, held_out, sizes = texts(SIZES["vocabulary"], names=2000, held_out_names=100)
    settings = DEFAULTS | SIZES | {"spec": asdict(SPEC), "seed": seed}
    gpt = build(settings)
    parameters = gpt.parameters()
    rng, stays = np.random.default_rng(seed), []

    def round_weights(history):
        draw = rng if kind.endswith("stochastic") else None
        stayed, entries = 0, 0
        for name, array in parameters.items():
            array[...] = round_to(array, "bfloat16", draw)
            if name.startswith("decoder.") and array.ndim == 2:
                stayed += (array == before[name]).sum()
                entries += array.size
            before[name] = array.copy()
        stays.append(stayed / entries)

    after_step = None
    if "no master" in kind:
        before = {}
        for name, array in parameters.items():
            array[...] = before[name] = round_to(array, "bfloat16")
        after_step = round_weights
    history = train(
        gradients(kind, gpt),
        make_optimizer(parameters, settings),
        windows(ids, settings["batch"], settings["length"], seed),
        steps,
        max_norm=settings["max_norm"],
        schedule=lambda step: learning_rate(step, steps, settings["learning_rate"]),
        after_step=after_step,
        progress=False,
    )

    def bits():
        return round(float(bits_per_byte(token_losses(gpt, held_out), held_out, sizes)), 4)

    found = {
        "losses": [round(float(record["loss"]), 3) for record in history[19::20]],
        "bits per byte": bits(),
    }
    if stays:
        parts = np.reshape(stays, (-1, 20)).mean(axis=1)
        found["entries that stayed"] = [round(float(part), 3) for part in parts]
    for array in parameters.values():
        if array.ndim == 2:
            whole, scales = round_rows(array)
            array[...] = whole * scales
    return found | {"bits per byte in 8 bits": bits()}
