"""The blind cases that the page plays: twelve trainings, and the answer to every question."""

from functools import partial

import numpy as np

from transformer_practice.cases.exhibits import SUSPECTS
from transformer_practice.cases.museum import as_text, drawn, planted_lines
from transformer_practice.cases.questions import OPS, QUESTIONS, ask
from transformer_practice.cases.trainings import trained
from transformer_practice.engine.planting import planted

SEED = 168  # of the museum of the chapter
ASKED = [*(name for name in QUESTIONS if name != "op"), *(f"op {name}" for name in OPS)]
AVERAGED = 5  # losses in a point of a curve


def runs():
    for case in range(1, 13):
        yield {"case": case}


def run(case):
    exhibit = drawn(np.random.default_rng(SEED))[case - 1]
    mistake = SUSPECTS[exhibit.name]
    plant = partial(planted, mistake)
    with plant(), np.errstate(all="ignore"):
        losses = trained(exhibit.task).losses
    return {
        "name": exhibit.name,
        "lines": list(planted_lines(mistake)),
        "key": exhibit.key,
        "losses": averaged(losses),
        "right": averaged(trained(exhibit.task).losses),
        "answers": {question: as_text(ask(question, exhibit.task, plant)) for question in ASKED},
    }


def averaged(losses):
    """The mean of every five losses, with four digits."""
    means = np.reshape(losses, (-1, AVERAGED)).mean(axis=1)
    return [float(f"{mean:.4g}") for mean in means]
