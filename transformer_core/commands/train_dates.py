"""``train dates``: the training of the chapter *Training the encoder–decoder*."""

import numpy as np

from transformer_core.commands.runs import add_options, load_settings, train_on_disk
from transformer_core.foundation.checks import check_positive_int
from transformer_core.layers.spec import LayerSpec
from transformer_core.models import EncoderDecoder
from transformer_core.models.stack_spec import StackSpec
from transformer_core.optim import Adam, warmup_stable_decay
from transformer_core.tasks.dates import Characters, DateRules, Dates, split_days
from transformer_core.tasks.dates.reader import DateReader
from transformer_core.training import DataParallel, Run

CHECKPOINT_EVERY = 250
BATCH = 64
UNSEEN = 4000


def add_parser(models):
    parser = models.add_parser(
        "dates",
        help="an encoder-decoder that reads dates in many languages",
        description=(
            "Train a Transformer encoder-decoder of 2 + 2 layers (D = 64, H = 4, F = 256) to read "
            "dates, as people write them in twelve languages, into ISO 8601, and measure it on "
            "dates it never saw. The command 'read' uses what is trained."
        ),
    )
    add_options(parser, learning_rate=3e-3)
    parser.add_argument(
        "--steps", type=int, default=2500, help=f"batches of {BATCH} to train on"
    )
    parser.set_defaults(run=run)


def run(options):
    check_positive_int("steps", options.steps)
    run = Run(options.out)
    data = Dates()
    vocabulary = {"characters": data.source.characters, "longest": data.longest}
    if options.resume:
        settings = load_settings(run, "dates")
        if {name: settings.get(name) for name in vocabulary} != vocabulary:
            raise ValueError(
                f"{run.folder}: expected the dates of the babel it was started with, "
                "got those of another"
            )
    else:
        settings = {
            "model": "dates",
            "steps": options.steps,
            "learning_rate": options.learning_rate,
            "seed": options.seed,
            **vocabulary,
        }
    reader = date_reader(settings)
    steps = settings["steps"]
    train_on_disk(
        run,
        settings,
        options.resume,
        DataParallel(reader.model.loss_and_gradients, counted_tokens),
        Adam(reader.model.parameters(), settings["learning_rate"]),
        lambda first: data.batches(BATCH, settings["seed"], first),
        steps,
        lambda step, steps: warmup_stable_decay(
            step, steps, settings["learning_rate"], warmup=100, decay=steps // 2
        ),
        CHECKPOINT_EVERY,
    )

    texts, answers, _ = data.sample(
        UNSEEN, split_days().test, np.random.default_rng(settings["seed"])
    )
    rules = DateRules()
    for name, read in (
        ("the model", reader.read(texts)),
        ("regular expressions", map(rules.read, texts)),
    ):
        right = np.mean([a == b for a, b in zip(read, answers, strict=True)])
        print(f"unseen dates read right by {name:19} {right:7.2%}")
    print(f"saved in {run.folder}")


def date_reader(settings):
    """Build what the settings of a run describe, untrained."""
    source, target = Characters(settings["characters"]), Characters("-0123456789")
    model = EncoderDecoder(
        LayerSpec(64, 4, 256, "pre"),
        StackSpec(len(source), settings["longest"], layers=2),
        StackSpec(len(target), length=11, layers=2),
        np.random.default_rng(settings["seed"]),
    )
    return DateReader(model, source, target)


def counted_tokens(source, source_lengths, target, target_lengths):
    return int((target_lengths - 1).sum())
