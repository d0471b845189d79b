"""How long Mini-BERT stays at the unigram entropy, and what makes it leave."""

from functools import cache

import numpy as np

from transformer_core.layers import AttentionSpec, LayerSpec
from transformer_core.models import Bert, StackSpec
from transformer_core.ops import sinusoidal_positions
from transformer_core.optim import SGD, AdamW, warmup_stable_decay
from transformer_core.tasks.bert.counts import frequencies
from transformer_core.tasks.bert.masking import mask, masked_batches, pack
from transformer_core.tasks.bert.mini_bert import SPEC, measure, mini_bert
from transformer_core.tasks.texts.documentation import documentation
from transformer_core.tasks.texts.documents import split
from transformer_core.tasks.texts.wordpiece import token_ids, train_wordpiece
from transformer_core.training import train

SEEDS = range(5)
VOCABULARY, TOKENS = 8192, 1024  # of a step
PLAIN = LayerSpec(192, AttentionSpec(4, bias=False), 768, "post")
LEAVES = 0.5  # nats below the unigram loss: the plateau is over
EVERY = 25  # steps between two looks at the held-out text

# what is changed in the plain model: untied, ReLU, learned positions, every start at random
CHANGES = {
    "plain": {},
    "tied": {"tied": True},
    "norm": {"embedding_norm": True},
    "sinusoids": {"sinusoids": True},
    "bias": {"log_frequencies": True},
    "four": {"tied": True, "embedding_norm": True, "sinusoids": True, "log_frequencies": True},
    "mask": {"neighbour_mask": True},
}


def runs():
    """The settings of every run."""
    for seed in SEEDS:
        for neighbours in (True, False):
            yield {"kind": "full", "neighbours": neighbours, "seed": seed}
    for seed in SEEDS:
        for length in (16, 32, 64):
            yield {"kind": "leave", "length": length, "seed": seed}
    for seed in SEEDS:
        for change in ("four", "mask"):
            yield {"kind": "leave", "change": change, "seed": seed, "steps": 200}
        for length in (16, 64):
            settings = {"optimizer": "sgd", "length": length, "steps": 200}
            yield {"kind": "leave", "seed": seed} | settings
    for seed in SEEDS:
        for change in ("tied", "norm", "sinusoids", "bias"):
            yield {"kind": "leave", "change": change, "seed": seed, "steps": 200}


def run(kind, **settings):
    """One training: ``full`` with the recipe of the course, ``leave`` until the plateau is over."""
    return {"full": full, "leave": leave}[kind](**settings)


def full(neighbours, seed, steps=3200, every=100):
    """The recipe of the course, with the neighbour start or with queries and keys at random."""
    training, held_out, shares = text(64)
    bert = mini_bert(shares, np.random.default_rng(seed))
    if not neighbours:
        usual = Bert(SPEC, StackSpec(VOCABULARY, 64, 3), np.random.default_rng(seed))
        ours, theirs = (
            model.encoder.layers[0].attention.branch.query_key_value.weight
            for model in (bert, usual)
        )
        ours[...] = theirs
    warmup = steps * 6 // 100
    return follow(
        bert,
        AdamW(bert.parameters(), beta2=0.98),
        masked_batches(training, TOKENS // 64, VOCABULARY, seed, share=0.3),
        lambda step: warmup_stable_decay(step, steps, 2e-3, warmup, steps - warmup),
        held_out,
        steps,
        every,
    )


def leave(seed, change="plain", length=64, optimizer="adamw", steps=1600):
    """The plain model with one change, until its held-out loss leaves the unigram entropy."""
    training, held_out, shares = text(length)
    change = dict(CHANGES[change])
    sinusoids, log_frequencies, neighbour_mask = (
        change.pop(name, False) for name in ("sinusoids", "log_frequencies", "neighbour_mask")
    )
    rng = np.random.default_rng(seed)
    bert = Bert(PLAIN, StackSpec(VOCABULARY, length, 3), rng, **change)
    smoothed = np.maximum(shares, shares[shares > 0].min() / 2)
    if sinusoids:
        positions = sinusoidal_positions(length, PLAIN.width)
        bert.positions.table[...] = 0.02 * np.sqrt(2) * positions
    if log_frequencies:
        bert.readout.bias[...] = np.log(smoothed)
    keep = None
    if neighbour_mask:
        keep = np.ones((1, 4, length, length), bool)
        keep[0, 0] = np.eye(length, k=-1, dtype=bool)
        keep[0, 1] = np.eye(length, k=1, dtype=bool)
    if optimizer == "sgd":
        stepping, peak = SGD(bert.parameters(), 0.1, momentum=0.9), 0.1
    else:
        stepping, peak = AdamW(bert.parameters()), 1e-3
    inputs, targets, masked = held_out
    unigram = -float(np.log(smoothed[targets[masked]]).mean())
    return {"unigram": unigram} | follow(
        bert,
        stepping,
        masked_batches(training, TOKENS // length, VOCABULARY, seed),
        lambda step: warmup_stable_decay(step, steps, peak, 100, 0),
        held_out,
        steps,
        EVERY,
        keep,
        below=unigram - LEAVES,
    )


def follow(bert, optimizer, batches, schedule, held_out, steps, every, keep=None, below=0.0):
    """Train, with a look at the held-out text on the way; end when its loss is below a bound."""
    looks = {"step": [], "loss": [], "accuracy": [], "neighbour": []}
    inputs, targets, masked = held_out

    def loss_and_gradients(seen, ids, asked, rng):
        return bert.loss_and_gradients(seen, ids, asked, keep, rng=rng)

    def look(history):
        step = history[-1]["step"]
        if step % every == 0:
            loss, accuracy = measure(Kept(bert, keep), inputs, targets, masked)
            for name, value in zip(
                looks,
                (step, round(loss, 4), round(accuracy, 4), neighbour_weight(bert, inputs, keep)),
                strict=True,
            ):
                looks[name].append(value)
            if loss < below:
                raise Left

    try:
        train(
            loss_and_gradients,
            optimizer,
            batches,
            steps,
            schedule=schedule,
            max_norm=1.0,
            after_step=look,
        )
    except Left:
        pass
    left = looks["step"][-1] if looks["loss"][-1] < below else None
    return {"left": left, "looks": looks}


class Left(Exception):
    """The plateau is over."""


class Kept:
    """A model that is always shown the same mask."""

    def __init__(self, bert, keep):
        self.bert, self.keep = bert, keep

    def forward(self, inputs, masked):
        return self.bert.forward(inputs, masked, self.keep)


def neighbour_weight(bert, inputs, keep):
    """Largest average weight that any head puts on the position before or after."""
    _, cache = bert.encoder.forward(bert.embed(inputs[:16])[0], keep)
    return round(
        max(
            float(layer.attention.branch.attention.weights.diagonal(k, -2, -1).mean((0, 2)).max())
            for layer in cache.layers
            for k in (-1, 1)
        ),
        4,
    )


@cache
def text(length):
    """Blocks to train on, 7,000 masked held-out tokens or so, and the tokens' frequencies."""
    training, blocks = (pack(ids, length) for ids in tokens())
    inputs, masked = mask(blocks, VOCABULARY, np.random.default_rng(4))
    shares = frequencies(training, VOCABULARY)
    part = slice(None, None, 4)
    return training, (inputs[part], blocks[part], masked[part]), shares


@cache
def tokens():
    """The token ids of the documents to train on, and of those held out."""
    training_texts, held_out_texts = split(documentation())
    tokenizer = train_wordpiece(training_texts, VOCABULARY)
    return [token_ids(tokenizer, texts) for texts in (training_texts, held_out_texts)]
