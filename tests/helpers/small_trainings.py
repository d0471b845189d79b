"""The command line with trainings that take no time, for the ranks of a test."""

import sys
from dataclasses import asdict, replace

import numpy as np

from transformer_core.__main__ import main
from transformer_core.layers import AttentionSpec
from transformer_core.tasks.bert import recipe as bert
from transformer_core.tasks.bert.mini_bert import SPEC
from transformer_core.tasks.dates import recipe as dates
from transformer_core.tasks.reconstruction import recipe as encoder

STEPS = "12"
OPTIONS = {"encoder": ["--epochs", STEPS], "dates": ["--steps", STEPS], "bert": ["--steps", STEPS]}
SENTENCES = (
    "the cat will chase a mouse .",
    "one mouse may eat some cheese .",
    "a dog can bite his bone .",
)


def shrink():
    """Make the trainings small; with dropout."""
    tiny = replace(SPEC, width=32, hidden_width=64, attention=AttentionSpec(2))
    small = {"spec": asdict(replace(tiny, dropout=0.1)), "checkpoint_every": 5}
    bert.DEFAULTS |= small | {"length": 16, "layers": 1, "vocabulary": 60, "batch": 8}
    dates.DEFAULTS |= small | {"batch": 8}
    dates.UNSEEN = 10
    encoder.DEFAULTS |= small | {"batch": 8}


def write_text(path):
    rng = np.random.default_rng(0)
    documents = [" ".join(rng.choice(SENTENCES, 40)) for _ in range(60)]
    path.write_text("\n\n".join(documents), encoding="utf-8")


if __name__ == "__main__":
    shrink()
    sys.exit(main(sys.argv[1:]))
