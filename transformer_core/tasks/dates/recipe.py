"""The training of the chapter *Training the encoder–decoder*."""

from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from transformer_core.distributed.over_ranks import over_ranks
from transformer_core.layers import LayerSpec
from transformer_core.models import EncoderDecoder, StackSpec
from transformer_core.optim import Adam, warmup_stable_decay
from transformer_core.ranks import Communicator
from transformer_core.tasks.dates.characters import Characters
from transformer_core.tasks.dates.data import Dates, split_days
from transformer_core.tasks.dates.reader import DateReader
from transformer_core.tasks.dates.rules import DateRules
from transformer_core.training import Recipe, Run, Training, load_settings

DEFAULTS = {
    "spec": asdict(LayerSpec(64, 4, 256, "pre")),
    "encoder_layers": 2,
    "decoder_layers": 2,
    "characters": "",  # of the dates of this babel
    "longest": 0,
    "steps": 2500,
    "batch": 64,
    "learning_rate": 3e-3,
    "beta2": 0.999,
    "max_norm": None,
    "seed": 0,
    "checkpoint_every": 250,
}
UNSEEN = 4000


def vocabulary(data: Dates) -> dict:
    return {"characters": data.source.characters, "longest": data.longest}


def prepare(settings: dict) -> dict[str, bytes]:
    settings |= vocabulary(Dates())
    return {}


def build(settings: dict) -> DateReader:
    """Build what the settings of a run describe, untrained."""
    source, target = Characters(settings["characters"]), Characters("-0123456789")
    model = EncoderDecoder(
        LayerSpec.from_settings(settings["spec"]),
        StackSpec(len(source), settings["longest"], settings["encoder_layers"]),
        StackSpec(len(target), len("YYYY-MM-DD") + 1, settings["decoder_layers"]),
        np.random.default_rng(settings["seed"]),
    )
    return DateReader(model, source, target)


def training(
    settings: dict, files: dict[str, bytes], communicator: Communicator, **scheme: int
) -> Training:
    data, reader = Dates(), build(settings)
    model, peak = reader.model, settings["learning_rate"]
    if settings | vocabulary(data) != settings:
        raise ValueError(
            "settings: expected the dates of the babel that the run was started with, "
            "got those of another"
        )

    def schedule(step, steps):
        return warmup_stable_decay(step, steps, peak, warmup=100, decay=steps // 2)

    def measures():
        rng = np.random.default_rng(settings["seed"])
        texts, answers, _ = data.sample(UNSEEN, split_days().test, rng)
        for name, read in (
            ("the model", reader.read(texts)),
            ("regular expressions", map(DateRules().read, texts)),
        ):
            right = np.mean([a == b for a, b in zip(read, answers, strict=True)])
            yield f"unseen dates read right by {name}", f"{right:.2%}"

    adam = partial(Adam, learning_rate=peak, beta2=settings["beta2"])
    parallel = over_ranks(model, counted_tokens, adam, communicator, **scheme)
    return Training(
        parallel.scheme,
        parallel.optimizer,
        lambda first: data.batches(settings["batch"], settings["seed"], first),
        schedule,
        measures,
        parallel.gather,
        parallel.scatter,
        model.set_parameters,
    )


def counted_tokens(source, source_lengths, target, target_lengths):
    return int((target_lengths - 1).sum())


RECIPE = Recipe("dates", DEFAULTS, ("steps",), training, prepare)


def load(folder: str | Path) -> DateReader:
    """Return the reader that ``train dates`` has trained into a folder."""
    run = Run(folder)
    reader = build(load_settings(run, RECIPE))
    run.load_checkpoint(reader.model.parameters())
    return reader
