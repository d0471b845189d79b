"""``train bert``: the training of the chapter *Mini-BERT*."""

import numpy as np

from transformer_core.commands.runs import (
    Deadline,
    add_options,
    load_settings,
    train_on_disk,
)
from transformer_core.foundation.checks import check_positive_int
from transformer_core.optim import AdamW, warmup_stable_decay
from transformer_core.tasks.bert.counts import Trigrams, frequencies
from transformer_core.tasks.bert.documentation import documentation
from transformer_core.tasks.bert.documents import read_documents, split
from transformer_core.tasks.bert.masking import mask, masked_batches, pack
from transformer_core.tasks.bert.mini_bert import SIZES, measure, mini_bert
from transformer_core.tasks.bert.wordpiece import (
    load_wordpiece,
    token_ids,
    train_wordpiece,
)
from transformer_core.training import Run
from transformer_core.training.data_parallel import DataParallel
from transformer_core.training.run import read_arrays

CHECKPOINT_EVERY = 500
VOCABULARY = 8192
BATCH = 16
SHARE = 0.3  # of the tokens that are masked in training; the measure masks 15 %
SECONDS_A_MINUTE = 60


def add_parser(models):
    parser = models.add_parser(
        "bert",
        help="a Mini-BERT that restores masked words",
        description=(
            "Train a Mini-BERT (L = 3, D = 192, H = 4, F = 768, T = 64, V = 8192) to restore "
            "masked tokens of the documentation of Python, NumPy and Matplotlib, as it is "
            "installed here, or of your own text; and measure it on documents it never saw. The "
            "command 'fill' uses what is trained."
        ),
    )
    add_options(parser, learning_rate=2e-3)
    parser.add_argument(
        "--text",
        metavar="PATH",
        help="a .txt file in UTF-8, or a folder of them, to train on instead",
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, default=5.0, help="time to train for")
    length.add_argument(
        "--steps", type=int, help=f"batches of {BATCH} to train on, instead of a time"
    )
    parser.set_defaults(run=run)


def run(options):
    run = Run(options.out)
    if options.steps is not None:
        check_positive_int("steps", options.steps)
    elif not 0 < options.minutes < float("inf"):
        raise ValueError(f"minutes: expected a positive number, got {options.minutes}")
    files = {}
    if options.resume:
        settings = load_settings(run, "bert")
        blocks, _ = read_arrays(run.folder / "blocks.safetensors")
    else:
        settings = {
            "model": "bert",
            "text": options.text,
            "minutes": options.minutes if options.steps is None else None,
            "steps": options.steps,
            "learning_rate": options.learning_rate,
            "seed": options.seed,
            "share": SHARE,
            "vocabulary": VOCABULARY,
            "sizes": SIZES,
        }
        blocks, files = prepare(options.text)
    vocabulary, seed = settings["vocabulary"], settings["seed"]
    training, held_out = blocks["training"], blocks["held_out"]

    shares = frequencies(training, vocabulary)
    bert = mini_bert(shares, np.random.default_rng(seed), **settings["sizes"])
    in_parallel = DataParallel(bert.loss_and_gradients, masked_tokens)

    optimizer = AdamW(bert.parameters(), settings["learning_rate"], beta2=0.98)
    optimizer.map = in_parallel.map

    train_on_disk(
        run,
        settings,
        options.resume,
        in_parallel,
        optimizer,
        lambda first: masked_batches(
            training, BATCH, vocabulary, seed, first, settings["share"]
        ),
        settings["steps"] or Deadline(SECONDS_A_MINUTE * settings["minutes"]),
        lambda step, steps: warmup_stable_decay(
            step,
            steps,
            settings["learning_rate"],
            warmup=steps * 6 // 100,
            decay=steps - steps * 6 // 100,
        ),
        CHECKPOINT_EVERY,
        max_norm=1.0,
        files=files,
    )

    inputs, masked = mask(held_out, vocabulary, np.random.default_rng([seed, 2]))
    targets = held_out[masked]
    _, accuracy = measure(bert, inputs, held_out, masked)
    trigrams = Trigrams(training, vocabulary)
    for name, right in (
        ("Mini-BERT", accuracy),
        ("two-sided trigrams", (trigrams.predict(inputs, masked) == targets).mean()),
        ("the most frequent token", (trigrams.top == targets).mean()),
    ):
        print(f"held-out masked tokens restored by {name:23} {right:7.2%}")
    print(f"saved in {run.folder}")


def prepare(text):
    """Return the blocks of tokens to train on and to hold out, and the files to keep of them."""
    from safetensors.numpy import save

    training, held_out = split(read_documents(text) if text else documentation())
    tokenizer = train_wordpiece(training, VOCABULARY)
    blocks = {
        "training": pack(token_ids(tokenizer, training), SIZES["length"]),
        "held_out": pack(token_ids(tokenizer, held_out), SIZES["length"]),
    }
    files = {
        "tokenizer.json": tokenizer.to_str(pretty=True).encode(),
        "blocks.safetensors": save(blocks),
    }
    return blocks, files


def masked_tokens(ids, targets, masked):
    return int(masked.sum())


def load_bert(run):
    """Return the Mini-BERT of a run, and its tokenizer."""
    settings = load_settings(run, "bert")
    tokenizer = load_wordpiece(run.folder / "tokenizer.json")
    shares = np.ones(settings["vocabulary"])
    bert = mini_bert(shares, np.random.default_rng(0), **settings["sizes"])
    run.load_checkpoint(bert.parameters())
    return bert, tokenizer
