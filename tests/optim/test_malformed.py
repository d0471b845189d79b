"""Malformed input to the optimisers."""

import math

import numpy as np
from helpers.malformed import (
    Choice,
    Named,
    Setting,
    Table,
    call,
    count,
    not_negative,
    positive,
    rate,
    whole,
)

from transformer_core import optim
from transformer_core.optim import SGD, Adam, AdamW, LossScale, Muon, Together
from transformer_core.optim.muon import CUBIC

WEIGHTS = Named(a="D F", b="F")
MATRICES = Named(a="D F", b="F D")
GRADS = Named(a="reals D F", b="reals F")
NAMES = {
    "beta1": rate(0.9), "beta2": rate(0.99), "eps": positive(1e-8), "momentum": rate(0.9),
    "weight_decay": not_negative(0.1), "iterations": whole(2), "matrix": "D F",
    "max_norm": positive(1.0), "peak": positive(0.1), "warmup": whole(2, least=0),
    "decay": whole(3, least=0), "step": count(2, lambda v: 1 <= v <= 9),
    "steps": count(9, lambda v: 2 <= v),
}  # fmt: skip


def steps(kind, *settings, parameters=WEIGHTS, grads=GRADS):
    """Make an optimiser and take one step."""

    def run(parameters, grads, max_norm, **given):
        kind(parameters, **given).step(grads, max_norm)

    return call(
        run,
        changes=("parameters",),
        parameters=parameters,
        grads=grads,
        max_norm=positive(1.0, optional=True),
        learning_rate=positive(0.1),
        **{name: NAMES[name] for name in settings},
    )


def together(parameters, learning_rate):
    """AdamW for one of the parameters, SGD for the others."""
    if not isinstance(parameters, dict):
        return Together(parameters, SGD({"a": np.ones((6, 7))}, learning_rate))
    one = {name: array for name, array in parameters.items() if name == "a"}
    others = {name: array for name, array in parameters.items() if name != "a"}
    return Together(parameters, AdamW(one, learning_rate), SGD(others, learning_rate))


ADAM = "beta1", "beta2", "eps"
LINES = {
    "Adam": steps(Adam, *ADAM),
    "AdamW": steps(AdamW, *ADAM, "weight_decay"),
    "Muon": steps(
        Muon, "momentum", "iterations", "weight_decay",
        parameters=MATRICES, grads=Named(a="reals D F", b="reals F D"),
    ),
    "SGD": steps(SGD, "momentum"),
    "Together": steps(together),
    "muon_scale": {
        "width_in": whole(3),
        "width_out": whole(4),
        "convention": Choice("original"),
    },
    "orthogonalize": {
        "coefficients": Choice(CUBIC, [None, 1.5, (), (1.5, -0.5), (1.5, None, 0.0), (1, 2, 3, 4)])
    },
    "LossScale": call(
        lambda scale, patience: LossScale(lambda rng, dloss: (0.0, {}), scale, patience),
        scale=Setting(8.0, lambda v: v > 0 and math.frexp(v)[0] == 0.5),
        patience=whole(3),
    ),
    "unscale": {"grads": Named(free=True, a="reals D F", b="reals F"), "scale": positive(2.0)},
    "clip_by_global_norm": {"grads": Named(free=True, a="reals D F", b="reals F")},
}  # fmt: skip
# In the lines of their classes.
METHODS = "blocks", "step", "apply"
WITHOUT = {
    f"{kind}.{name}" for kind in ("Adam", "AdamW", "Muon", "SGD", "Together") for name in METHODS
}
# A gradient that does not fit is called so, be it the parameter that was spoiled.
INDIRECT = {kind: {"parameters": "grads eps"} for kind in ("Adam", "AdamW", "Together")}
INDIRECT |= {kind: {"parameters": "grads"} for kind in ("Muon", "SGD")}
INDIRECT["warmup_stable_decay"] = {"steps": "step"}
FILE = "tests/optim/test_malformed.py"
OPTIM = Table(FILE, [optim], LINES, NAMES, without=WITHOUT, indirect=INDIRECT)
test_the_table_is_complete, test_valid_calls_pass, test_what_is_malformed_is_named = OPTIM.tests()
