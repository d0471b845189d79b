"""The training of the chapter *Mini-BERT*."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from transformer_core.distributed.over_ranks import over_ranks
from transformer_core.foundation.files import from_safetensors, to_safetensors
from transformer_core.layers import LayerSpec
from transformer_core.models import Bert
from transformer_core.optim import AdamW, warmup_stable_decay
from transformer_core.ranks import Communicator
from transformer_core.tasks.bert.counts import Trigrams, frequencies
from transformer_core.tasks.bert.masking import mask, masked_batches, pack
from transformer_core.tasks.bert.mini_bert import (
    LAYERS,
    LENGTH,
    SPEC,
    measure,
    mini_bert,
)
from transformer_core.tasks.texts.documentation import documentation
from transformer_core.tasks.texts.documents import read_documents, split
from transformer_core.tasks.texts.wordpiece import (
    load_wordpiece,
    token_ids,
    train_wordpiece,
)
from transformer_core.training import Recipe, Run, Training, load_settings

if TYPE_CHECKING:
    from tokenizers import Tokenizer

DEFAULTS = {
    "spec": asdict(SPEC),
    "length": LENGTH,
    "layers": LAYERS,
    "vocabulary": 8192,
    "text": None,  # the documentation that is installed
    "minutes": 5.0,
    "steps": None,
    "batch": 16,
    "share": 0.3,  # of the tokens that are masked in training; the measure masks 15 %
    "learning_rate": 2e-3,
    "beta2": 0.98,
    "max_norm": 1.0,
    "seed": 0,
    "checkpoint_every": 500,
}
BLOCKS, TOKENIZER = "blocks.safetensors", "tokenizer.json"


def prepare(settings: dict) -> dict[str, bytes]:
    """Learn the vocabulary, and cut the text into blocks to train on and to hold out."""
    text = settings["text"]
    if text == "":
        raise ValueError("text: expected a path, got an empty one")
    training, held_out = split(
        documentation() if text is None else read_documents(text)
    )
    tokenizer = train_wordpiece(training, settings["vocabulary"])
    blocks = {
        "training": pack(token_ids(tokenizer, training), settings["length"]),
        "held_out": pack(token_ids(tokenizer, held_out), settings["length"]),
    }
    return {
        TOKENIZER: tokenizer.to_str(pretty=True).encode(),
        BLOCKS: to_safetensors(blocks),
    }


def build(settings: dict, shares: np.ndarray) -> Bert:
    """Build what the settings of a run describe, untrained, for tokens of these frequencies."""
    return mini_bert(
        shares,
        np.random.default_rng(settings["seed"]),
        LayerSpec.from_settings(settings["spec"]),
        settings["length"],
        settings["layers"],
    )


def training(
    settings: dict, files: dict[str, bytes], communicator: Communicator, **scheme: int
) -> Training:
    blocks, _ = from_safetensors(BLOCKS, files[BLOCKS])
    vocabulary, seed = settings["vocabulary"], settings["seed"]
    bert = build(settings, frequencies(blocks["training"], vocabulary))
    peak = settings["learning_rate"]
    adamw = partial(AdamW, learning_rate=peak, beta2=settings["beta2"])
    parallel = over_ranks(bert, masked_tokens, adamw, communicator, **scheme)

    def batches(first):
        known, size, share = blocks["training"], settings["batch"], settings["share"]
        return masked_batches(known, size, vocabulary, seed, first, share)

    def schedule(step, steps):
        warmup = steps * 6 // 100
        return warmup_stable_decay(step, steps, peak, warmup, decay=steps - warmup)

    def measures():
        held_out = blocks["held_out"]
        rng = np.random.default_rng([seed, 2])
        inputs, masked = mask(held_out, vocabulary, rng)
        targets = held_out[masked]
        trigrams = Trigrams(blocks["training"], vocabulary)
        guesses = trigrams.predict(inputs, masked)
        for name, right in (
            ("Mini-BERT", measure(bert, inputs, held_out, masked)[1]),
            ("two-sided trigrams", (guesses == targets).mean()),
            ("the most frequent token", (trigrams.top == targets).mean()),
        ):
            yield f"held-out masked tokens restored by {name}", f"{right:.2%}"

    return Training(
        parallel.scheme,
        parallel.optimizer,
        batches,
        schedule,
        measures,
        parallel.gather,
        parallel.scatter,
        bert.set_parameters,
    )


def masked_tokens(ids, targets, masked):
    return int(masked.sum())


RECIPE = Recipe(
    "bert", DEFAULTS, ("minutes", "steps"), training, prepare, (TOKENIZER, BLOCKS)
)


def load(folder: str | Path) -> "tuple[Bert, Tokenizer]":
    """Return the Mini-BERT that ``train bert`` has trained into a folder, and its tokenizer.

    Returns
    -------
    bert : Bert
    tokenizer : tokenizers.Tokenizer
    """
    run = Run(folder)
    settings = load_settings(run, RECIPE)
    tokenizer = load_wordpiece(run.folder / TOKENIZER)
    bert = build(settings, np.ones(settings["vocabulary"]))
    run.load_checkpoint(bert.parameters())
    return bert, tokenizer
