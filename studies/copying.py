"""What lowers Mini-BERT's loss first: copying tokens that it sees, or reading the others."""

import numpy as np

from studies.plateau import PLAIN, TOKENS, VOCABULARY, text
from transformer_core.models import Bert, StackSpec
from transformer_core.ops import log_softmax
from transformer_core.optim import AdamW, warmup_stable_decay
from transformer_core.tasks.bert.masking import masked_batches
from transformer_core.tasks.texts.wordpiece import MASK
from transformer_core.training import train

SEEDS = range(5)
STEPS, EVERY = 200, 50


def runs():
    """The settings of every run."""
    for seed in SEEDS:
        for length in (64, 16):
            yield {"length": length, "seed": seed}


def run(length, seed, steps=STEPS):
    """Train the plain model, and split its held-out loss by what stands in the token's place."""
    training, (inputs, targets, masked), shares = text(length)
    smoothed = np.maximum(shares, shares[shares > 0].min() / 2)
    seen, asked = inputs[masked], targets[masked]
    kinds = {
        "hidden": seen == MASK,
        "random": (seen != MASK) & (seen != asked),
        "kept": seen == asked,
    }
    bert = Bert(PLAIN, StackSpec(VOCABULARY, length, 3), np.random.default_rng(seed))
    looks = {"step": [], "loss": []} | {kind: [] for kind in kinds}

    def look(history):
        step = history[-1]["step"]
        if step % EVERY == 0:
            losses = each_loss(bert, inputs, targets, masked)
            looks["step"].append(step)
            looks["loss"].append(round(float(losses.mean()), 4))
            for kind, inside in kinds.items():
                looks[kind].append(round(float(losses[inside].mean()), 4))

    def loss_and_gradients(shown, ids, drawn, rng):
        return bert.loss_and_gradients(shown, ids, drawn, rng=rng)

    train(
        loss_and_gradients,
        AdamW(bert.parameters()),
        masked_batches(training, TOKENS // length, VOCABULARY, seed),
        steps,
        schedule=lambda step: warmup_stable_decay(step, steps, 1e-3, 100, 0),
        max_norm=1.0,
        after_step=look,
    )
    unigram = -np.log(smoothed[asked])
    return {
        "unigram": {kind: float(unigram[inside].mean()) for kind, inside in kinds.items()}
        | {"loss": float(unigram.mean())},
        "looks": looks,
    }


def each_loss(bert, inputs, targets, masked):
    """The loss of every masked token."""
    found = []
    for first in range(0, len(inputs), 16):
        part = slice(first, first + 16)
        if masked[part].any():
            asked = targets[part][masked[part]]
            log_p = log_softmax(bert.forward(inputs[part], masked[part])[0])
            found.append(-log_p[np.arange(len(asked)), asked])
    return np.concatenate(found)
