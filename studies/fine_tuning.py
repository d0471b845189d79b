"""Mini-BERT fine-tuned to tell modules apart: whole, in part and by LoRA, against bag of words."""

from functools import partial

import numpy as np

from studies import fingerprint
from studies._modules import WEIGHTS, encode, load_bert, modules, pretrained, split
from transformer_core.layers import LayerSpec, add_lora
from transformer_core.layers.frozen import Frozen
from transformer_core.models import Classifier
from transformer_core.ops import cross_entropy, cross_entropy_backward, linear, linear_backward
from transformer_core.optim import Adam, AdamW, Together, warmup_stable_decay
from transformer_core.tasks.bert.mini_bert import mini_bert
from transformer_core.training import train

SEEDS = range(5)
EACH, BATCH, STEPS = 64, 16, 200  # sentences of a module; of a step
TARGETS = "query_key_value", "output", "hidden"
ALPHA, FALL = 16, 0.5  # of LoRA; of the rate from layer to layer
# Kinds with the peak rates that are tried.
KINDS = {
    "head": [3e-3, 1e-2, 3e-2, 1e-1],
    "head, first": [3e-3, 1e-2, 3e-2, 1e-1],
    "full": [3e-4, 1e-3, 3e-3],
    "layer-wise": [1e-3, 3e-3, 9e-3],
    "lora 1": [1e-3, 3e-3, 1e-2],
    "lora 4": [1e-3, 3e-3, 1e-2],
    "lora 16": [1e-3, 3e-3, 1e-2],
    "scratch": [3e-4, 1e-3, 3e-3, 1e-2],
    "words": [1e-6, 1e-5, 1e-4],  # its weight decay, for it has no rate to choose
}
FRESH = "scratch", "words"  # the kinds that do not begin with the Mini-BERT


def runs():
    """The settings of every run."""
    for seed in SEEDS:
        for kind, rates in KINDS.items():
            for rate in rates:
                yield settings_of(kind, rate, seed)


def settings_of(kind, rate, seed):
    settings = {"kind": kind, "rate": rate, "seed": seed}
    return settings if kind in FRESH else settings | {"weights": fingerprint(WEIGHTS)}


def run(kind, rate, seed, weights="", steps=STEPS):
    """Train one classifier; return the share of held-out sentences that it puts right."""
    training, held_out = split(EACH, seed)
    if kind == "words":
        return bag_of_words(training, held_out, rate)
    model, history = fine_tune(training, kind, rate, seed, steps)
    return {
        "losses": [round(record["loss"], 3) for record in history[9::10]],
        "trained": sum(array.size for array in model.parameters().values()),
        "right": round(accuracy(model, held_out), 4),
    }


def fine_tune(training, kind, rate, seed, steps=STEPS):
    """Train one classifier; return it with the records of its steps."""
    model = build(kind, seed)
    ids, keep = encode(training.texts)
    rng = np.random.default_rng([seed, 1])

    def batches():
        while True:
            order = rng.permutation(len(ids))
            for start in range(0, len(ids) - BATCH + 1, BATCH):
                rows = order[start : start + BATCH]
                yield ids[rows], training.labels[rows], keep[rows]

    history = train(
        model,
        optimizer(model, kind, rate),
        batches(),
        steps,
        schedule=partial(
            warmup_stable_decay,
            steps=steps,
            peak=rate,
            warmup=steps // 10,
            decay=steps - steps // 10,
        ),
        max_norm=1.0,
    )
    return model, history


def build(kind, seed):
    """The classifier of a kind, with what is not trained frozen."""
    rng = np.random.default_rng(seed)
    if kind == "scratch":
        settings, _, _ = pretrained()
        spec = LayerSpec.from_settings(settings["spec"])
        shares = np.full(len(settings["pieces"]), 1 / len(settings["pieces"]))
        return Classifier(mini_bert(shares, rng, spec), len(modules()), rng)
    model = Classifier(load_bert(), len(modules()), rng, first=kind == "head, first")
    if kind.startswith("head"):
        model.bert = Frozen(model.bert)
    elif kind.startswith("lora"):
        add_lora(model.bert, TARGETS, int(kind.split()[1]), ALPHA, rng)
    return model


def optimizer(model, kind, rate):
    """AdamW, or one for the head and for each layer, whose rate falls towards the input."""
    make = partial(AdamW, beta2=0.98, undecayed=("bias", "gamma", "beta", "table"))
    parameters = model.parameters()
    if kind != "layer-wise":
        return make(parameters, rate)
    groups = {}
    for name in parameters:
        groups.setdefault(depth(name, len(model.bert.encoder.layers)), {})[name] = parameters[name]
    parts = [make(group, rate * FALL**k) for k, group in sorted(groups.items())]
    return Together(parameters, *parts)


def depth(name, layers):
    """How far below the head a parameter is: 0 for the head, layers + 1 for the embeddings."""
    if name.startswith("head."):
        return 0
    if name.startswith("bert.encoder.layer_"):
        return layers - int(name.split(".")[2].removeprefix("layer_"))
    return 1 if name.startswith("bert.encoder.") else layers + 1


def accuracy(model, held_out, together=64):
    """The share of sentences whose module has the largest logit."""
    ids, keep = encode(held_out.texts)
    right = 0
    for start in range(0, len(ids), together):
        rows = slice(start, start + together)
        logits, _ = model.forward(ids[rows], keep[rows])
        right += int((logits.argmax(axis=1) == held_out.labels[rows]).sum())
    return right / len(ids)


def bag_of_words(training, held_out, decay, steps=150):
    """Logistic regression on the words of a sentence, without their order."""
    words = [sorted(set(text.lower().split())) for text in training.texts]
    number = {word: n for n, word in enumerate(sorted({w for line in words for w in line}))}

    def count(texts):
        x = np.zeros((len(texts), len(number)), np.float32)
        for row, text in zip(x, texts, strict=True):
            for word in text.lower().split():
                if word in number:
                    row[number[word]] = 1
        return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1)

    x = count(training.texts)
    p = {
        "weight": np.zeros((len(number), len(modules())), np.float32),
        "bias": np.zeros(len(modules()), np.float32),
    }
    adam = Adam(p, 0.1)
    for _ in range(steps):
        logits, cache = linear(x, p["weight"], p["bias"])
        _, loss_cache = cross_entropy(logits, training.labels)
        _, dweight, dbias = linear_backward(cross_entropy_backward(1, loss_cache), cache)
        adam.step({"weight": dweight + decay * p["weight"], "bias": dbias})
    logits, _ = linear(count(held_out.texts), p["weight"], p["bias"])
    return {
        "trained": sum(array.size for array in p.values()),
        "right": round(float((logits.argmax(axis=1) == held_out.labels).mean()), 4),
    }
