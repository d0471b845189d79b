"""What Mini-BERT still knows of masked words when it has been fine-tuned to tell modules apart."""

import numpy as np

from studies._modules import encode, load_bert, split
from studies.fine_tuning import EACH, SEEDS, accuracy, fine_tune, settings_of
from transformer_core.ops import cross_entropy
from transformer_core.tasks.texts.wordpiece import MASK, SPECIAL_TOKENS

# Each kind at the peak rate with the best accuracy; all weights also at a lower one, with about the
# accuracy of LoRA, and LoRA also at a higher one.
RATES = [
    ("full", 1e-3),
    ("full", 3e-4),
    ("layer-wise", 3e-3),
    ("lora 1", 3e-3),
    ("lora 4", 3e-3),
    ("lora 4", 1e-2),
    ("lora 16", 3e-3),
]
MASKED = 0.15


def runs():
    """The settings of every run."""
    for kind, rate in RATES:
        for seed in SEEDS:
            yield settings_of(kind, rate, seed)


def run(kind, rate, seed, weights):
    """Fine-tune once; return the accuracy, and the loss on masked words of held-out sentences.

    For the loss the output layer that a classifier lacks is put back, with its own bias.
    """
    training, held_out = split(EACH, seed)
    model, _ = fine_tune(training, kind, rate, seed)
    model.bert.readout = load_bert().readout
    return {
        "right": round(accuracy(model, held_out), 4),
        "masked": round(masked_loss(model.bert, held_out.texts), 4),
    }


def masked_loss(bert, texts):
    """The mean loss on the masked words, always the same ones."""
    ids, keep = encode(texts)
    words = ids >= len(SPECIAL_TOKENS)
    masked = words & (np.random.default_rng(0).random(ids.shape) < MASKED)
    total = 0.0
    for start in range(0, len(ids), 64):
        rows = slice(start, start + 64)
        inputs = np.where(masked[rows], MASK, ids[rows])
        logits, _ = bert.forward(inputs, masked[rows], keep[rows, np.newaxis, np.newaxis])
        loss, _ = cross_entropy(logits, ids[rows][masked[rows]])
        total += loss * masked[rows].sum()
    return float(total / masked.sum())


def before():
    """The loss of the Mini-BERT that has not been fine-tuned."""
    return masked_loss(load_bert(), split(EACH, 0)[1].texts)
