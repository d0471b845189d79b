"""Malformed input to the checks of the foundation and to the witnesses of gradients."""

import inspect
from functools import partial

import numpy as np
from helpers.malformed import (
    DTYPE,
    Choice,
    Floats,
    Ids,
    Named,
    Scalar,
    Setting,
    Table,
    Whatever,
    call,
    not_negative,
    positive,
    rate,
    whole,
)

from transformer_core import gradient_check, ops
from transformer_core.foundation import checks, chunks, names
from transformer_core.layers import NormSpec

# The kind of the value that each of these is given after a name.
OF_A_VALUE = {
    "as_list": Choice([0, 1], [None, 3, 0.5, object, np.array(1)]),
    "check_array": "anything ...",
    "check_dtype": DTYPE,
    "check_generator": Choice(
        np.random.default_rng(0), [0, None, "text", np.random.RandomState(0)]
    ),
    "check_names": Choice({"a": 1}, [None, [], 3, "text"]),
    "check_not_negative": not_negative(0.1),
    "check_positive": positive(0.1),
    "check_positive_int": whole(3),
    "check_rate": rate(0.1),
    "check_real": Setting(1.0, lambda v: True),
    "check_scalar": Scalar(1.0),
    "check_whole": whole(3, least=0),
}


def of_a_value(function, kind):
    function = partial(function, "value")
    return call(function, **{next(iter(inspect.signature(function).parameters)): kind})


LINES = {name: of_a_value(getattr(checks, name), kind) for name, kind in OF_A_VALUE.items()} | {
    "check_booleans": call(lambda x: checks.check_booleans("x", x, "B", "T"), x="booleans B T"),
    "check_choice": call(
        lambda value: checks.check_choice("activation", value, ["relu", "gelu"]),
        value=Choice("relu"),
    ),
    "check_fit": call(
        lambda arrays, expected: names.check_fit("grads", arrays, expected),
        arrays=Named(a="anything D F", b="anything F"),
        expected=Whatever(lambda rng: {"a": np.ones((6, 7)), "b": np.ones(7)}),
    ),
    "check_floats": call(lambda x: checks.check_floats("x", x, "D", "F"), x="D F"),
    "check_ids": call(lambda ids: checks.check_ids("ids", ids, 9), ids="ids ..."),
    "check_kind": call(
        lambda spec: checks.check_kind("norm", spec, NormSpec),
        spec=Choice(NormSpec(), [None, 3, {}, NormSpec]),
    ),
    "check_reals": call(lambda x: checks.check_reals("x", x, "D", "F"), x="reals D F"),
    "check_shape": call(lambda x: checks.check_shape("x", x, ..., "D", 7), x="anything ... D F"),
    "record": call(
        lambda settings: checks.record("norm", NormSpec, settings),
        settings=Choice({"eps": 1e-3}, [None, 3, [], "text", {"epsilon": 1}, {1: 2}]),
    ),
    # Of gradients
    "central_difference": call(
        partial(gradient_check.central_difference, lambda x: (x * x).sum()),
        x="...",
        h=positive(1e-5, optional=True),
        at=Ids("N", below=8, listed=True, optional=True),
    ),
    "check_backward": call(
        lambda x, cotangent, seed: gradient_check.check_backward(
            ops.relu, ops.relu_backward, cotangent, seed, x=x
        ),
        x="D F",
        cotangent=Floats("D F", optional=True, listed=True),
    ),
    "check_gradients": call(
        lambda arrays, grads, probes: gradient_check.check_gradients(
            lambda: sum((a * a).sum() for a in arrays.values()),
            arrays,
            grads,
            probes=probes,
            rng=np.random.default_rng(0),
        ),
        arrays=Named(a="D F", b="F"),
        grads=Named(a="numbers D F", b="numbers F"),
        probes=whole(3, optional=True),
    ),
    "complex_step": call(
        partial(gradient_check.complex_step, lambda x: (x * x).sum()),
        x="numbers ...",
        h=positive(1e-20),
        at=Ids("N", below=8, listed=True, optional=True),
    ),
    "gradient_error": {
        "gradient": "numbers D F",
        "reference": "numbers D F",
        "scale": not_negative(0.1),
    },
}
# Results, not made by the caller; and what is called by the package alone.
WITHOUT = {
    "GradientReport", "broadcasts", "check_function", "chunks", "is_real", "join", "sizes",
    "stand_in",
}  # fmt: skip
FOUNDATION = Table(
    "tests/foundation/test_malformed.py",
    [checks, chunks, names, gradient_check],
    LINES,
    without=WITHOUT,
)
test_the_table_is_complete, test_valid_calls_pass, test_what_is_malformed_is_named = (
    FOUNDATION.tests()
)
