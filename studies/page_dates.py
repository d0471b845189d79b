"""The reader of dates in the page, the first of the study ``dates``; its weights are stored."""

from copy import deepcopy
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

import numpy as np

from book.living_models import in_eight_bits, write_script
from studies.dates import (
    STEPS,
    build,
    dates,
    encoded,
    reader_of,
    share_right,
    train_reader,
    unseen,
    validation,
)
from transformer_core.layers import LayerSpec
from transformer_core.ops import cross_entropy
from transformer_core.tasks.dates import LANGUAGES

SCRIPT = Path(__file__).parents[1] / "book/_static/models/date_reader.js"
LOOK = 250  # steps between two readings of the validation days


def runs():
    """The settings of every run."""
    yield {"steps": STEPS, "seed": 0}


def run(steps, seed, script=SCRIPT):
    """Train, write the weights in 8 bits as a script, and measure what the rounding costs."""
    model = build(np.random.default_rng(seed))
    looks = {"step": [], "right": [], "languages": []}

    def look(history):
        if history[-1]["step"] % LOOK == 0:
            right, languages = look_at(model)
            looks["step"].append(history[-1]["step"])
            looks["right"].append(round(right, 5))
            looks["languages"].append([round(share, 5) for share in languages])

    history = train_reader(model, steps, steps // 2, seed, after_step=look)
    reader = reader_of(model)
    shape = {
        "spec": asdict(LayerSpec(64, 4, 256, "pre")),
        "layers": 2,
        "characters": reader.source.characters,
        "longest": dates().longest,
    }
    write_script(script, "date_reader", model.parameters(), shape)
    rounded = deepcopy(model)
    rounded.set_parameters(in_eight_bits(model.parameters()))
    answers = [reader_of(each).read(unseen().texts) for each in (model, rounded)]
    return {
        "losses": [round(record["loss"], 5) for record in history],
        "looks": looks,
        "right": [share_right(of_one, unseen()) for of_one in answers],
        "loss": [round(mean_loss(each), 8) for each in (model, rounded)],
        "changed": sum(a != b for a, b in zip(*answers, strict=True)),
        "weights": sha256(Path(script).read_bytes()).hexdigest(),
    }


def look_at(model):
    """The share of validation dates read right, of all and of each language."""
    answers = reader_of(model).read(validation().texts)
    right = np.array([a == b for a, b in zip(answers, validation().answers, strict=True)])
    languages = np.array([form.language for form in validation().formats])
    return float(right.mean()), [float(right[languages == name].mean()) for name in LANGUAGES]


def mean_loss(model):
    """Of the characters of the right answers to unseen texts, each given those before it."""
    source, target, keep = encoded(unseen())
    losses = []
    for first in range(0, len(source), 500):
        part = slice(first, first + 500)
        logits, _ = model.forward(source[part], target[part, :-1], keep[part])
        losses.append(float(cross_entropy(logits, target[part, 1:])[0]))
    return float(np.mean(losses))
