"""The Mini-BERT of the fifth text under its own recipe, beside the one of the course."""

from functools import cache

import numpy as np

from studies import plateau
from transformer_core.layers import AttentionSpec, LayerSpec, NormSpec
from transformer_core.models import Bert, StackSpec
from transformer_core.optim import Adam, AdamW, warmup_stable_decay
from transformer_core.tasks.bert.masking import masked_batches
from transformer_core.tasks.bert.mini_bert import measure, mini_bert
from transformer_core.training import train

SEEDS = range(5)
STEPS, EVERY = 200, 50  # of a run; between two looks at the held-out text
VOCABULARY, LENGTH, LAYERS, BATCH = plateau.VOCABULARY, 64, 3, 8  # sections 1 and 6.2 of the text
# sections 1, 2 and 7.2: attention without biases, Post-LN, ReLU, an epsilon of 1e-12
THEIRS = LayerSpec(192, AttentionSpec(4, bias=False), 768, "post", NormSpec(eps=1e-12))
# peak, share of the steps that warm up, share of the tokens that are masked
RECIPES = {
    "theirs": (1e-4, 0.1, 0.15),
    "theirs, rate 1e-3": (1e-3, 0.1, 0.15),
    "ours": (2e-3, 0.06, 0.3),
}


def runs():
    """The settings of every run."""
    for seed in SEEDS:
        for recipe in RECIPES:
            yield {"recipe": recipe, "seed": seed}


def run(recipe, seed, steps=STEPS, until=STEPS):
    """Train up to a step of a schedule of ``steps``; look at the held-out text on the way."""
    training, held_out, shares = text()
    peak, rise, share = RECIPES[recipe]
    rng = np.random.default_rng(seed)
    if recipe == "ours":
        bert = mini_bert(shares, rng)
        optimizer = AdamW(bert.parameters(), beta2=0.98)
    else:
        bert = Bert(THEIRS, StackSpec(VOCABULARY, LENGTH, LAYERS), rng)
        optimizer = Adam(bert.parameters())
    warmup = round(rise * steps)
    looks = {"step": [0], "loss": [], "accuracy": []}

    def look():
        loss, accuracy = measure(bert, *held_out)
        looks["loss"].append(round(loss, 4))
        looks["accuracy"].append(round(accuracy, 4))

    def after_step(history):
        if history[-1]["step"] % EVERY == 0:
            looks["step"].append(history[-1]["step"])
            look()

    look()
    train(
        bert.loss_and_gradients,
        optimizer,
        masked_batches(training, BATCH, VOCABULARY, seed, share=share),
        until,
        schedule=lambda step: warmup_stable_decay(step, steps, peak, warmup, steps - warmup),
        max_norm=1.0,
        after_step=after_step,
    )
    return {
        "parameters": sum(array.size for array in bert.parameters().values()),
        "unigram": round(unigram(held_out, shares), 4),
        "looks": looks,
    }


def unigram(held_out, shares):
    """Loss of answering with the frequencies, whatever stands around the gap."""
    _, targets, masked = held_out
    smoothed = np.maximum(shares, shares[shares > 0].min() / 2)
    return -float(np.log(smoothed[targets[masked]]).mean())


@cache
def text():
    """Blocks to train on, an eighth of the held-out ones, masked, and the frequencies."""
    training, quarter, shares = plateau.text(LENGTH)
    return training, tuple(part[::2] for part in quarter), shares
