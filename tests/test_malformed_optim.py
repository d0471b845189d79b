"""Malformed input to the optimisers, to the witnesses of gradients and to the foundation."""

import numpy as np
from malformed import (
    DTYPE,
    Anything,
    Booleans,
    Choice,
    Floats,
    Ids,
    Named,
    Numbers,
    Reals,
    Scalar,
    Setting,
    Whatever,
    both_tests,
    call,
    not_negative,
    positive,
    public_names,
    rate,
    whole,
)

from transformer_core import gradient_check, ops, optim
from transformer_core.foundation import checks, chunks, names
from transformer_core.layers import NormSpec
from transformer_core.optim import SGD, Adam, AdamW, Muon

WEIGHTS = Named(a=Floats("D F"), b=Floats("F"))
MATRICES = Named(a=Floats("D F"), b=Floats("F D"))
GRADS = Named(a=Reals("D F"), b=Reals("F"))
RATE = positive(0.1)


def steps(kind, parameters, grads, **kinds):
    """Make an optimiser and take one step."""

    def run(parameters, grads, max_norm, **given):
        kind(parameters, **given).step(grads, max_norm)

    return call(
        run,
        changes=("parameters",),
        parameters=parameters,
        grads=grads,
        max_norm=positive(1.0, optional=True),
        learning_rate=RATE,
        **kinds,
    )


def step_of(kind, parameters, grads):
    """Take one step of an optimiser that was made well."""

    def run(parameters, grads, max_norm):
        kind(parameters, 0.1).step(grads, max_norm)

    return steps(kind, parameters, grads)


ADAM = {"beta1": rate(0.9), "beta2": rate(0.99), "eps": positive(1e-8)}
OPTIM = {
    "Adam": steps(Adam, WEIGHTS, GRADS, **ADAM),
    "AdamW": steps(AdamW, WEIGHTS, GRADS, **ADAM, weight_decay=not_negative(0.1)),
    "Muon": steps(
        Muon,
        MATRICES,
        Named(a=Reals("D F"), b=Reals("F D")),
        momentum=rate(0.9),
        iterations=whole(2),
        weight_decay=not_negative(0.1),
    ),
    "SGD": steps(SGD, WEIGHTS, GRADS, momentum=rate(0.9)),
    "clip_by_global_norm": call(
        optim.clip_by_global_norm,
        grads=Named(free=True, a=Reals("D F"), b=Reals("F")),
        max_norm=positive(1.0),
    ),
    "orthogonalize": call(
        optim.orthogonalize, matrix=Floats("D F"), iterations=whole(2)
    ),
    "warmup_stable_decay": call(
        optim.warmup_stable_decay,
        step=Setting(2, lambda v: isinstance(v, (int, np.integer)) and 1 <= v <= 9),
        steps=Setting(9, lambda v: isinstance(v, (int, np.integer)) and 2 <= v),
        peak=positive(0.1),
        warmup=whole(2, least=0),
        decay=whole(3, least=0),
    ),
}
# In the lines of their classes.
STEPS = {
    f"{name}.{method}"
    for name in ("Adam", "AdamW", "Muon", "SGD")
    for method in ("norm", "step")
}

X = {"x": Floats("D F")}
AT = Ids("N", below=8, listed=True, optional=True)


def squares(x):
    return (x * x).sum()


def with_backward(x, cotangent, seed):
    return gradient_check.check_backward(
        ops.relu, ops.relu_backward, cotangent, seed, x=x
    )


def compared(arrays, grads, probes):
    return gradient_check.check_gradients(
        lambda: sum((a * a).sum() for a in arrays.values()),
        arrays,
        grads,
        probes=probes,
        rng=np.random.default_rng(0),
    )


GRADIENT_CHECK = {
    "central_difference": call(
        lambda x, h, at: gradient_check.central_difference(squares, x, h, at),
        x=Floats("..."),
        h=positive(1e-5, optional=True),
        at=AT,
    ),
    "check_backward": call(
        with_backward,
        x=Floats("D F"),
        cotangent=Floats("D F", optional=True, listed=True),
        seed=whole(0, least=0),
    ),
    "check_gradients": call(
        compared,
        arrays=Named(a=Floats("D F"), b=Floats("F")),
        grads=Named(a=Numbers("D F"), b=Numbers("F")),
        probes=whole(3, optional=True),
    ),
    "complex_step": call(
        lambda x, h, at: gradient_check.complex_step(squares, x, h, at),
        x=Numbers("..."),
        h=positive(1e-20),
        at=AT,
    ),
    "gradient_error": call(
        gradient_check.gradient_error,
        gradient=Numbers("D F"),
        reference=Numbers("D F"),
        scale=not_negative(0.1),
    ),
}

FOUNDATION = {
    "check_fit": call(
        lambda arrays, expected: names.check_fit("grads", arrays, expected),
        arrays=Named(a=Anything("D F"), b=Anything("F")),
        expected=Whatever(lambda rng: {"a": np.ones((6, 7)), "b": np.ones(7)}),
    ),
    "as_list": call(
        lambda values: checks.as_list("ranks", values),
        values=Choice([0, 1], [None, 3, 0.5, object, np.array(1)]),
    ),
    "check_booleans": call(
        lambda masked: checks.check_booleans("masked", masked, "B", "T"),
        masked=Booleans("B T"),
    ),
    "check_names": call(
        lambda arrays: checks.check_names("grads", arrays),
        arrays=Choice({"a": 1}, [None, [], 3, "text"]),
    ),
    "check_choice": call(
        lambda value: checks.check_choice("activation", value, ["relu", "gelu"]),
        value=Choice("relu"),
    ),
    "check_dtype": call(lambda dtype: checks.check_dtype("dtype", dtype), dtype=DTYPE),
    "check_not_negative": call(
        lambda value: checks.check_not_negative("std", value), value=not_negative(0.1)
    ),
    "check_positive": call(
        lambda value: checks.check_positive("eps", value), value=positive(0.1)
    ),
    "check_positive_int": call(
        lambda value: checks.check_positive_int("width", value), value=whole(3)
    ),
    "check_rate": call(lambda value: checks.check_rate("rate", value), value=rate(0.1)),
    "check_real": call(
        lambda value: checks.check_real("weight", value),
        value=Setting(1.0, lambda v: True),
    ),
    "check_scalar": call(
        lambda value: checks.check_scalar("dloss", value), value=Scalar(1.0)
    ),
    "check_whole": call(
        lambda value: checks.check_whole("first", value), value=whole(3, least=0)
    ),
    "record": call(
        lambda settings: checks.record("norm", NormSpec, settings),
        settings=Choice({"eps": 1e-3}, [None, 3, [], "text", {"epsilon": 1}, {1: 2}]),
    ),
    "check_array": call(lambda x: checks.check_array("x", x), x=Anything("...")),
    "check_shape": call(
        lambda x: checks.check_shape("x", x, ..., "D", 7), x=Anything("... D F")
    ),
    "check_floats": call(
        lambda x: checks.check_floats("x", x, "D", "F"), x=Floats("D F")
    ),
    "check_reals": call(lambda x: checks.check_reals("x", x, "D", "F"), x=Reals("D F")),
    "check_ids": call(
        lambda ids: checks.check_ids("ids", ids, 9), ids=Ids("...", below=9)
    ),
}
CALLS = OPTIM | GRADIENT_CHECK | FOUNDATION


def test_every_public_name_is_in_the_table():
    assert sorted(set(public_names(optim)) - STEPS) == sorted(OPTIM)
    reports = {"GradientReport", "GradientError"}  # results, not made by the caller
    assert sorted(set(public_names(gradient_check)) - reports) == sorted(GRADIENT_CHECK)
    inside = {"chunks", "is_real", "join", "sizes"}  # called by the package alone
    assert sorted(set(public_names(checks, chunks, names)) - inside) == sorted(
        FOUNDATION
    )


test_valid_calls_pass, test_what_is_malformed_is_named = both_tests(CALLS)
