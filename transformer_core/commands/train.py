"""``train``: the trainings of the book, in a folder that keeps their results."""

import argparse
import sys

from transformer_core.tasks.bert.recipe import RECIPE as BERT
from transformer_core.tasks.dates.recipe import RECIPE as DATES
from transformer_core.tasks.gpt.recipe import OPTIMIZERS
from transformer_core.tasks.gpt.recipe import RECIPE as GPT
from transformer_core.tasks.reconstruction.recipe import RECIPE as ENCODER
from transformer_core.tasks.search.recipe import RECIPE as SEARCH
from transformer_core.training import Run, train_on_disk


def add_parser(commands):
    parser = commands.add_parser("train", help="train a model")
    for model in add_models(parser):
        model.add_argument(
            "--out",
            required=True,
            metavar="RUN",
            help="folder for settings.json, history.json and checkpoint.safetensors",
        )
        model.add_argument(
            "--resume",
            action="store_true",
            help="continue from the checkpoint in RUN, with the settings of that run; a different "
            "length is accepted if it leaves the learning rate up to there unchanged",
        )
        how = model.add_mutually_exclusive_group()
        how.add_argument(
            "--zero-stage",
            type=int,
            choices=[1, 2, 3],
            help="what is divided among the ranks: 1 the moments, 2 also the gradients, 3 also the "
            "parameters",
        )
        how.add_argument(
            "--tensor-parallel",
            type=int,
            metavar="N",
            help="divide each layer among N ranks (bert, gpt)",
        )
        model.set_defaults(run=run)


def add_models(parser):
    """Add the models with the settings of their trainings; return their parsers.

    The options that are parsed have the ``recipe``, and ``given(options)``: the settings in them.
    """
    models = parser.add_subparsers(dest="model", required=True)
    encoder = add_model(
        models,
        ENCODER,
        "an encoder that returns the embeddings of its input",
        "Train a Transformer encoder of 2 layers (D = 64, H = 4, F = 256) to return the "
        "embeddings of 32 sequences of 16 tokens, and measure it on sequences it never saw.",
    )
    encoder("--placement", "Pre-LN or Post-LN", choices=["pre", "post"])
    encoder("--epochs", "steps on the training batch", type=int)

    dates = add_model(
        models,
        DATES,
        "an encoder-decoder that reads dates in many languages",
        "Train a Transformer encoder-decoder of 2 + 2 layers (D = 64, H = 4, F = 256) to read "
        "dates, as people write them in twelve languages, into ISO 8601, and measure it on "
        "dates it never saw: in about seven minutes on two cores. The command 'read' uses the "
        "trained model.",
    )
    dates("--steps", f"batches of {DATES.defaults['batch']} to train on", type=int)

    bert = add_model(
        models,
        BERT,
        "a Mini-BERT that restores masked words",
        "Train a Mini-BERT (L = 3, D = 192, H = 4, F = 768, T = 64, V = 8192) to restore "
        "masked tokens of the documentation of Python, NumPy and Matplotlib, as it is "
        "installed here, or of your own text; and measure it on documents it never saw. The "
        "command 'fill' uses the trained model.",
    )
    gpt = add_model(
        models,
        GPT,
        "a GPT that writes",
        "Train a GPT of today's blocks (L = 4, D = 192, H = 6, G = 2, F = 512, T = 128, V = 4096) "
        "on the documentation of Python, NumPy and Matplotlib, as it is installed here, or on "
        "your own text; and measure it on names it never saw, against counting. The command "
        "'write' uses the trained model.",
    )
    gpt(
        "--optimizer",
        "for the decoder's matrices; the rest uses AdamW",
        choices=OPTIMIZERS,
    )
    gpt(
        "--pairs",
        "rows of a table for the last two tokens together; 0 for none",
        type=int,
    )
    search = add_model(
        models,
        SEARCH,
        "an encoder that finds passages by their meaning",
        "Train an encoder so that the first sentence of a passage finds the rest of it, in the "
        "documentation of Python, NumPy and Matplotlib, as it is installed here, or in your own "
        "text; and measure it on names it never saw, against search by words. The command 'search' "
        "uses the trained model.",
    )
    search(
        "--base",
        "what to begin with instead of a new encoder: a folder that 'train bert' "
        "made, or one of a BERT as the library transformers writes it, or its id on the hub",
        metavar="FOLDER",
    )
    for recipe, add_setting in ((BERT, bert), (GPT, gpt), (SEARCH, search)):
        add_setting(
            "--text",
            "a text file in UTF-8, or a folder of .txt, .md and .rst files, to train on instead",
            metavar="PATH",
        )
        add_setting("--minutes", "time to train for", type=float)
        add_setting(
            "--steps",
            f"batches of {recipe.defaults['batch']} to train on, instead of a time",
            type=int,
        )
    return list(models.choices.values())


def add_model(models, recipe, summary, description):
    """Add a model with the settings of every training; return what adds another one."""
    parser = models.add_parser(recipe.model, help=summary, description=description)

    def add_setting(option, meaning, **how):
        default = (recipe.defaults | recipe.defaults["spec"])[
            option[2:].replace("-", "_")
        ]
        shown = "" if default is None else f" (default: {default})"
        parser.add_argument(
            option, default=argparse.SUPPRESS, help=meaning + shown, **how
        )

    add_setting("--learning-rate", "of Adam or AdamW, at its peak", type=float)
    add_setting("--seed", "for data, initial parameters and dropout", type=int)
    parser.set_defaults(recipe=recipe, given=given)
    return add_setting


def given(options):
    """Return the settings that are given, by their names."""
    defaults = options.recipe.defaults
    settings = {n: v for n, v in vars(options).items() if n in defaults}
    spec = {n: v for n, v in vars(options).items() if n in defaults["spec"]}
    return settings | {"spec": spec}


def run(options):
    recipe, folder, communicator = options.recipe, options.out, options.communicator
    minutes, usual = getattr(options, "minutes", None), recipe.defaults.get("minutes")
    if communicator.rank == 0 and minutes and 0 < minutes < usual:
        print(
            f"{minutes:g} minutes are too short to train well: the recipe takes {usual:g}",
            file=sys.stderr,
        )
    names = "zero_stage", "tensor_parallel"
    scheme = {n: getattr(options, n) for n in names if getattr(options, n) is not None}
    try:
        training = train_on_disk(
            recipe, folder, given(options), options.resume, communicator, scheme
        )
        if communicator.rank != 0:
            return
        measures = dict(training.measures())
    except KeyboardInterrupt:
        if communicator.rank != 0:
            return  # rank 0 says what is saved, and ends all
        steps = Run(folder).steps()
        raise KeyboardInterrupt(
            "nothing is saved"
            if steps is None
            else f"{folder} holds step {steps}; --resume continues from there"
        ) from None
    width = max(map(len, measures))
    for name, figure in measures.items():
        print(f"{name:{width}} {figure:>8}")
    print(f"saved in {folder}")
