"""``train encoder``: the training of the chapter *Training the encoder*."""

from itertools import repeat

import numpy as np

from transformer_core.commands.runs import add_options, load_settings, train_on_disk
from transformer_core.foundation.checks import check_positive_int
from transformer_core.layers.spec import LayerSpec
from transformer_core.ops import mean_squared_error
from transformer_core.optim import Adam, warmup_stable_decay
from transformer_core.tasks.reconstruction import (
    Reconstruction,
    Reconstructor,
    predict_zero,
)
from transformer_core.training import Run

CHECKPOINT_EVERY = 50
UNSEEN_SEQUENCES = 256


def add_parser(models):
    parser = models.add_parser(
        "encoder",
        help="an encoder that gives back its input's embeddings",
        description=(
            "Train a Transformer encoder of 2 layers (D = 64, H = 4, F = 256) to give back the "
            "embeddings of 32 sequences of 16 tokens, and measure it on sequences it never saw."
        ),
    )
    add_options(parser, learning_rate=3e-3)
    parser.add_argument(
        "--norm", choices=["pre", "post"], default="pre", help="Pre-LN or Post-LN"
    )
    parser.add_argument(
        "--epochs", type=int, default=500, help="steps on the training batch"
    )
    parser.set_defaults(run=run)


def run(options):
    check_positive_int("epochs", options.epochs)
    run = Run(options.out)
    if options.resume:
        settings = load_settings(run, "encoder")
    else:
        settings = {
            "model": "encoder",
            "norm": options.norm,
            "epochs": options.epochs,
            "learning_rate": options.learning_rate,
            "seed": options.seed,
        }

    rng = np.random.default_rng(settings["seed"])
    task = Reconstruction(rng)
    batch = task.sample(32, rng)
    unseen = task.sample(UNSEEN_SEQUENCES, rng)
    encoder = Reconstructor(LayerSpec(64, 4, 256, settings["norm"]), 2, rng)
    epochs = settings["epochs"]
    train_on_disk(
        run,
        settings,
        options.resume,
        encoder.loss_and_gradients,
        Adam(encoder.parameters(), settings["learning_rate"]),
        lambda first: repeat(batch),
        epochs,
        lambda epoch, epochs: warmup_stable_decay(
            epoch, epochs, settings["learning_rate"], decay=max(1, epochs // 5)
        ),
        CHECKPOINT_EVERY,
    )

    def error(inputs, targets):
        outputs, _ = encoder.forward(inputs)
        loss, _ = mean_squared_error(outputs, targets)
        return loss

    print(f"MSE on the training batch  {error(*batch):.5f}")
    print(f"MSE on unseen sequences    {error(*unseen):.5f}")
    print(f"MSE of predicting zero     {predict_zero(unseen[1]):.5f}")
    print(f"saved in {run.folder}")
