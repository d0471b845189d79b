"""Wrong gradients that projects have shipped, each in a small GPT from five seeds."""

from contextlib import nullcontext
from functools import partial

import numpy as np

from transformer_core.distributed import ShardedParameters, TensorParallelBert
from transformer_core.layers import LayerSpec, NormSpec
from transformer_core.models import Bert, StackSpec
from transformer_core.ops import cross_entropy, window_keep
from transformer_core.optim import AdamW, Muon, Together, clip_by_global_norm, warmup_stable_decay
from transformer_core.ranks import on_threads
from transformer_core.training import combine, train
from transformer_practice.cases.trainings import LONGEST, WINDOW, D, V, gpt, text_batches
from transformer_practice.engine.planting import planted
from transformer_practice.mistakes import MUTANTS

SEEDS = range(5)
STEPS, EVERY, RATE, MAX_NORM, FIRST = 200, 10, 8e-3, 1.0, 4
CLIPPED = "parts-clipped-apart"  # in the loop of this study: the package clips in the optimiser
# Each setting of the training has its right one, None, and the mistakes that need it.
KINDS = {
    "plain": (
        None,
        "rotary-layout-ignored",
        "rms-norm-not-trained",
        "rms-norm-gamma-forgotten",
        "rms-norm-mean-term",
        "grouped-heads-tiled",
        "grouped-gradient-averaged",
        "qk-norm-after-rotation",
        "window-one-too-long",
        "softmax-no-coupling",
        "attention-dropout-not-in-the-weights",
        "accumulation-mean-of-means",
        CLIPPED,
        "cross-entropy-mass-of-one",
    ),
    "muon": (None, "muon-momentum-of-directions", "muon-decay-lost"),
    "recomputed": (None, "sharded-recomputed-with-another-dropout"),
    "positions cut": (None, "sequence-norms-not-summed"),
    "matrices cut": (None, "g-summed-backward-too"),
}


def runs():
    """The settings of every run; no name: the right gradients."""
    for setting, names in KINDS.items():
        for name in names:
            for seed in SEEDS:
                yield {"setting": setting, "name": name, "seed": seed}


def run(setting, name, seed):
    """One training under a mistake: the mean of every ten losses, and that of unseen rows."""
    mutant = MUTANTS.get(name)
    with planted(mutant) if mutant else nullcontext():
        if setting.endswith("cut"):
            losses, unseen = cut(seed, sequence=setting == "positions cut")
        elif setting == "recomputed":
            losses, unseen = recomputed(seed)
        else:
            losses, unseen = trained(setting, name, seed)
    means = np.reshape(losses, (-1, EVERY)).mean(axis=1)
    return {"losses": [float(f"{mean:.4g}") for mean in means], "unseen": float(f"{unseen:.4g}")}


def loop(model, optimizer, batches, seed, steps=STEPS, max_norm=MAX_NORM):
    history = train(
        model,
        optimizer,
        batches,
        steps,
        seed=seed,
        max_norm=max_norm,
        schedule=lambda step: warmup_stable_decay(step, STEPS, RATE, 20, STEPS // 2),
    )
    return [record["loss"] for record in history]


def seeded(seed):
    """A new GPT, and its batches."""
    return gpt(np.random.default_rng(seed)), text_batches(np.random.default_rng([seed, 1]))


def unseen_loss(model):
    """The loss of 400 rows, each token counted alike."""
    ids, targets, weights = next(text_batches(np.random.default_rng(99), size=400))
    logits, _ = model.forward(ids, window_keep(ids.shape[1], WINDOW))
    return float(cross_entropy(logits, targets, np.ceil(weights))[0])


def trained(setting, name, seed, steps=STEPS):
    """Train in two parts a step, of 4 rows and of 20; return the losses."""
    model, batches = seeded(seed)
    parameters = model.parameters()
    if setting == "muon":
        matrices = {n: a for n, a in parameters.items() if n.startswith("decoder") and a.ndim == 2}
        rest = {n: a for n, a in parameters.items() if n not in matrices}
        muon = Muon(matrices, 2 * RATE, weight_decay=1.0)
        optimizer = Together(parameters, AdamW(rest, RATE), muon)
    else:
        optimizer = AdamW(parameters, RATE)

    def part(ids, targets, weights, rng):
        keep = window_keep(ids.shape[1], WINDOW)
        loss, grads = model.loss_and_gradients(ids, targets, weights, keep, rng)
        if name == CLIPPED:
            grads, _ = clip_by_global_norm(grads, MAX_NORM)
        return weights.sum(), loss, grads

    def loss_and_gradients(*batch, rng):
        parts = ((array[rows] for array in batch) for rows in (slice(FIRST), slice(FIRST, None)))
        _, loss, grads = combine(part(*rows, rng) for rows in parts)
        return loss, grads

    losses = loop(loss_and_gradients, optimizer, batches, seed, steps)
    return losses, unseen_loss(model)


def recomputed(seed):
    """Train with each forward pass computed twice."""

    def on_rank(communicator):
        model, batches = seeded(seed)
        keep = window_keep(2 * LONGEST + 2, WINDOW)
        scheme = ShardedParameters(model, partial(AdamW, learning_rate=RATE), communicator)

        def loss_and_gradients(ids, targets, weights, rng):
            settings = {"weight": weights.sum(), "keep": keep, "rng": rng}
            return scheme.of_shard(ids, targets, weights, **settings)

        losses = loop(loss_and_gradients, scheme.optimizer, batches, seed)
        with scheme.whole_model():
            return losses, unseen_loss(model)

    return on_threads(1, on_rank)[0]


def cut(seed, sequence):
    """Train a BERT whose matrices are cut over two ranks, and its sequences between them."""
    spec = LayerSpec(D, 2, 64, "pre", NormSpec("rms_norm"), "swiglu")
    length, mask = 2 * LONGEST + 2, V  # the id of the mask: one beyond the others

    def on_rank(communicator):
        stack, rng = StackSpec(V + 1, length, 2), np.random.default_rng([seed, 2])
        whole = Bert(spec, stack, np.random.default_rng(seed))
        model = TensorParallelBert(whole, communicator, sequence)

        def hidden(batch):
            ids, _, _ = batch
            masked = (rng.random(ids.shape) < 0.2) & (ids > 2)
            return np.where(masked, mask, ids), ids, masked

        batches = map(hidden, text_batches(np.random.default_rng([seed, 1])))
        losses = loop(model, AdamW(model.parameters(), RATE), batches, seed, max_norm=None)
        rng = np.random.default_rng(99)
        rows = next(text_batches(np.random.default_rng(99), size=400))
        return losses, float(model.loss_and_gradients(*hidden(rows))[0])

    return on_threads(2, on_rank)[0]
