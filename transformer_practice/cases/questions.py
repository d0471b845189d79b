"""What may be asked of a run and what it costs: the answers are rows, the right one beside."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from transformer_core import ops
from transformer_core.gradient_check import complex_step, gradient_error
from transformer_core.optim import SGD, AdamW
from transformer_practice.cases.trainings import (
    LONGEST,
    SEED,
    START,
    STEPS,
    TASKS,
    WINDOW,
    D,
    T,
    V,
    batch_of,
    loop,
    new_model,
    rate,
    trained,
)
from transformer_practice.engine.exercise import Exercise
from transformer_practice.engine.runs import run_package
from transformer_practice.exercises import find_exercise
from transformer_practice.judges.checks import fresh_check, generic_check, randomised, slope_errors
from transformer_practice.judges.theorems import THEOREMS, holds

OPS = (  # what may stand behind "op"
    "linear",
    "softmax",
    "cross_entropy",
    "layer_norm",
    "LayerNorm",
    "relu",
    "FeedForward",
    "attention",
    "split_heads",
    "merge_heads",
    "MultiHeadSelfAttention",
    "MultiHeadCrossAttention",
    "embedding",
    "Residual",
    "dropout",
    "attention_with_dropout",
    "ResidualWithDropout",
    "mean_squared_error",
    "Encoder",
    "Decoder",
)
OPS_OF_A_GPT = (  # and where that is trained
    "rms_norm",
    "RmsNorm",
    "rotary",
    "Rotary",
    "grouped_attention",
    "QkNorm",
    "window_keep",
    "GatedFeedForward",
)
MOST = 4  # points that an answer names
REFUSED = (ValueError, IndexError, TypeError, FloatingPointError)
Rows = dict[str, list[str]]  # what is looked at, to this run and the right one


class Question(NamedTuple):
    """``see`` looks at the package at hand, ``tell`` compares what it has seen with the right."""

    price: int
    about: str
    see: Callable[..., dict[str, Any]]
    tell: Callable[[dict, dict], Rows] | None = None


def ask(question: str, task: str, plant: Callable) -> Rows:
    """Put a question to the package with a mistake, and to the right one.

    Parameters
    ----------
    question : str
        Such as "fresh", or "op layer_norm".
    task : str
        A key of ``TASKS``.
    plant : callable
        Returns the context manager that plants the mistake.

    Returns
    -------
    dict of str to list of str
        Each thing that was looked at, with what was seen in this run and in the right one.

    Raises
    ------
    ValueError
        If there is no such question.
    """
    asked, *of = find(question)
    right = right_answer(question, task)
    with np.errstate(all="ignore"), plant():
        try:
            seen = asked.see(task, *of)
        except REFUSED as error:
            return {"an error": [" ".join(str(error).split()), "none"]}
    return (asked.tell or beside)(seen, right)


@cache
def right_answer(question, task):
    asked, *of = find(question)
    with np.errstate(all="ignore"):
        return asked.see(task, *of)


def find(question: str) -> list:
    """Return a question, and after it what it is asked of."""
    name, *of = question.split() or [""]
    if name not in QUESTIONS:
        raise ValueError(f"question: expected one of {', '.join(QUESTIONS)}, got {name}")
    if name == "op":
        if len(of) != 1 or of[0] not in OPS + OPS_OF_A_GPT:
            raise ValueError(
                f"question: expected op and one of {', '.join(OPS + OPS_OF_A_GPT)}, got {question}"
            )
    elif of:
        raise ValueError(f"question: expected {name} alone, got {question}")
    return [QUESTIONS[name], *of]


def differing(rows: Rows) -> Rows:
    """Return the rows in which a run is not like the right one."""
    return {name: pair for name, pair in rows.items() if pair[0] != pair[1]}


def price(question: str) -> int:
    """Return the points that a question costs."""
    return find(question)[0].price


def beside(seen, right):
    names = list(right) + [name for name in seen if name not in right]
    return {name: [seen.get(name, "none"), right.get(name, "none")] for name in names}


def fresh(task):
    return {"new models": fresh_check() or "nothing found"}


def generic(task):
    return {"random point": generic_check() or "nothing found"}


def theorems(task):
    return {
        theorem.__name__.replace("_", " "): "holds" if holds(theorem) else "broken"
        for theorem in THEOREMS
    }


def norms(task):
    loss, grads = first_gradients(task, np.random.default_rng(SEED))
    lengths = {name: f"{np.linalg.norm(grad):.3g}" for name, grad in grads.items()}
    return {"loss": f"{loss:.4g}"} | lengths


def first_gradients(task, rng):
    return TASKS[task].loss_and_gradients(new_model(task), *batch_of(task), rng=rng)


def moves(task):
    before, after = (trained(task, steps).model.parameters() for steps in (0, 5))
    return {name: f"{np.linalg.norm(array - before[name]):.3g}" for name, array in after.items()}


def where(task):
    """Go through the arrays in the order in which the backward pass reaches them."""
    model = randomised(new_model(task, np.complex128))
    batch = batch_of(task, size=3)
    errors = slope_errors(model, batch, complex_step, **TASKS[task].settings)
    return {
        name: "right" if errors[name] < 1e-9 else f"wrong, error {errors[name]:.2g}"
        for name in reversed(errors)
    }


def op(task, name):
    """Run an op at every point: its outputs, to the points, to arrays."""
    seen = {}
    for point, outputs in outputs_of(find_exercise(name)).items():
        for output, value in outputs.items():
            seen.setdefault(output, {})[point] = value
    return seen


def outputs_of(exercise: Exercise) -> dict[str, dict[str, Any]]:
    """Return what the package computes at each point, the gradients with it."""
    points = exercise.points()
    forward, backward = run_package(exercise)
    seen = {point.name: shown(run) for point, run in zip(points, forward, strict=True)}
    for point, run in zip(points, backward, strict=False):
        seen[point.name] |= shown(run)
    return seen


def shown(run):
    return {"the outputs": run.failure} if run.failure else run.outputs


def at_points(seen, right):
    """Say at which points each output is wrong, and at which it is right."""
    rows = {}
    for output, values in right.items():
        wrong = {
            point: how
            for point, value in values.items()
            if (how := difference(seen.get(output, {}).get(point), value))
        }
        blind = [point for point in values if point not in wrong]
        if not wrong:
            text = "right"
        elif len(wrong) <= MOST:
            text = ", ".join(f"{how} at {point}" for point, how in wrong.items())
        else:
            point, how = next(iter(wrong.items()))
            text = f"{how} at {point}, wrong at {len(wrong) - 1} other points"
        if wrong and len(blind) <= MOST:
            text += f"; right at {' / '.join(blind) or 'no point'}"
        elif wrong:
            text += f"; right at {len(blind)} points"
        rows[output] = [text, "right"]
    return rows


def difference(value: Any, right: Any) -> str:
    """Say how far a value is from the right one; "" if it is right."""
    if value is None or isinstance(value, str):
        return value or "missing"
    value, right = np.asarray(value), np.asarray(right)
    if value.shape != right.shape:
        return f"of shape {value.shape} instead of {right.shape}"
    if not right.size:
        return ""
    error = gradient_error(value.astype(float), right.astype(float), 1e-6).norm
    if np.isnan(error):
        return "not finite"
    return "" if error < 1e-9 else f"off by {error:.2g}"


def inputs(task):
    if task == "text":
        return text_inputs()
    return written_inputs() if task == "reversal" else token_inputs(task)


def text_inputs():
    """Change a token, and see whether the last scores but one follow it."""
    model = randomised(new_model("text", np.float64))
    ids = np.random.default_rng(SEED).integers(3, V, (2, 2 * LONGEST + 2))
    keep = ops.window_keep(ids.shape[1], WINDOW)
    layer = model.decoder.layers[0]

    def scores(ids):
        x, _ = model.embed(ids)
        return layer.forward(x, keep)[0][:, -2]

    before = scores(ids)
    return {
        name: reaction(scores(changed(ids, ids.shape[1] - 2 - back)), before)
        for name, back in (
            ("the next token", -1),
            (f"the token {WINDOW - 1} before it", WINDOW - 1),
            (f"the token {WINDOW} before it", WINDOW),
        )
    }


def token_inputs(task):
    model = randomised(new_model(task, np.float64))
    x = np.random.default_rng(SEED).normal(size=(3, T, D))
    y, _ = model.forward(x)
    turned, _ = model.forward(x[:, ::-1])
    alone, _ = model.forward(x[1:2])
    hidden, _ = model.forward(x, ops.padding_keep(np.array([T - 2] * 3), T))
    cut, _ = model.forward(x[:, :-2])
    return {
        "positions in another order": says(turned[:, ::-1], y, "the outputs follow"),
        "one sequence without the others": says(alone, y[1:2], "its outputs stay"),
        "two positions hidden, or cut off": says(hidden[:, :-2], cut, "no difference"),
    }


def says(value, expected, same):
    return same if np.allclose(value, expected) else "other outputs"


def written_inputs():
    model = randomised(new_model("reversal", np.float64))
    rng = np.random.default_rng(SEED)
    source, shifted = rng.integers(3, V, (2, LONGEST)), rng.integers(3, V, (2, LONGEST))
    lengths = np.array([LONGEST - 2, LONGEST - 2])
    target = np.concatenate([np.full((2, 1), START), shifted], axis=1)

    def loss(source, target):
        return model.loss_and_gradients(source, lengths, target, lengths)[0]

    def scores(source, shifted):
        keep = ops.padding_keep(lengths, LONGEST)
        return model.forward(source, shifted, keep)[0]

    def read(source):
        keep = ops.padding_keep(lengths, LONGEST)
        return model.encode(source, keep)[0][:, : LONGEST - 2]

    other = {at: changed(source, at) for at in (0, -2, -1)}
    y = scores(source, shifted)
    return {
        "a token of the source": reaction(scores(other[0], shifted), y),
        "the first position of its padding": reaction(scores(other[-2], shifted), y),
        "the last position of its padding": reaction(scores(other[-1], shifted), y),
        "the same, where the encoder reads tokens": reaction(read(other[-1]), read(source)),
        "the token before the one to score": reaction(
            scores(source, changed(shifted, 3))[:, 3], y[:, 3]
        ),
        "the token to score": reaction(scores(source, changed(shifted, 3))[:, 2], y[:, 2]),
        "a token long before it": reaction(scores(source, changed(shifted, 0))[:, 3], y[:, 3]),
        "a token long after it": reaction(scores(source, changed(shifted, 5))[:, 2], y[:, 2]),
        "padding of the target (the loss)": reaction(
            loss(source, changed(target, -1)), loss(source, target)
        ),
        "START (the loss)": reaction(loss(source, changed(target, 0)), loss(source, target)),
    }


def changed(ids, at):
    ids = ids.copy()
    ids[:, at] = 3 + (ids[:, at] - 2) % (V - 3)
    return ids


def reaction(value, before):
    return "nothing changes" if np.allclose(value, before, atol=1e-12) else "the scores change"


def modes(task):
    evaluation, _ = first_gradients(task, None)
    training = [first_gradients(task, np.random.default_rng(n))[0] for n in range(20)]
    handed = []

    def loss_and_gradients(rng):
        handed.append("in training mode" if rng else "in evaluation mode")
        return 1.0, {"weight": np.ones(1)}

    loop(loss_and_gradients, AdamW({"weight": np.ones(1)}), [()], 1)
    ones, _ = ops.dropout(np.ones(10_000), 0.5, np.random.default_rng(SEED))
    return {
        "loss in evaluation": f"{evaluation:.4f}",
        "loss in training, mean of 20 draws": f"{np.mean(training):.4f}",
        "their spread": f"{np.std(training):.4f}",
        "the loop calls the model": handed[0],
        "mean of ones after dropout 0.5": f"{ones.mean():.1f}",
    }


def optimiser(task):
    parameters = {"weight": np.ones(4), "bias": np.ones(2)}
    optimizer = AdamW(parameters, 0.01, weight_decay=0.0)
    rows = {}
    for step in range(1, 4):
        before = parameters["weight"].copy()
        optimizer.step({name: np.ones_like(a) for name, a in parameters.items()})
        moved = before - parameters["weight"]
        rows[f"constant gradient, step {step} at rate 0.01"] = f"{moved[0]:.4f}"
    rows["of the bias, after 3 steps"] = f"{1 - parameters['bias'][0]:.4f}"
    for gradient in (0, 1):
        decayed = {"weight": np.ones(1), "bias": np.ones(1)}
        optimizer = AdamW(decayed, 0.1, weight_decay=0.5)
        optimizer.step({name: gradient * np.ones(1) for name in decayed})
        for name, array in decayed.items():
            rows[f"{name} 1, gradient {gradient}, decay 0.5, rate 0.1"] = f"{array[0]:.4f}"
    plain = {"a": np.zeros(2), "b": np.zeros(2)}
    SGD(plain, 1.0).step({"a": np.array([3.0, 0.0]), "b": np.array([0.0, 4.0])}, max_norm=1)
    rows["gradients 3 and 4, clipped to 1"] = f"{-plain['a'][0]:.1f} and {-plain['b'][1]:.1f}"
    return rows


def schedule(task):
    optimizer, rates = AdamW({"weight": np.ones(1)}), []
    loop(
        lambda rng: (1.0, {"weight": np.ones(1)}),
        optimizer,
        [()] * STEPS,
        STEPS,
        schedule=partial(rate, task),
        after_step=lambda _: rates.append(optimizer.learning_rate),
    )
    return {
        f"rate of step {step}": f"{rates[step - 1]:.3g}"
        for step in (1, 2, 3, STEPS // 2, STEPS - 1, STEPS)
    }


def resume(task):
    straight, stopped = (trained(task, 10, stop) for stop in (10, 5))
    differ = np.flatnonzero(straight.losses != stopped.losses)
    arrays = zip(
        straight.model.parameters().values(), stopped.model.parameters().values(), strict=True
    )
    same = all(np.array_equal(one, other) for one, other in arrays)
    return {
        "stopped after step 5, losses differ from": f"step {differ[0] + 1}"
        if differ.size
        else "no step",
        "parameters after step 10": "the same" if same else "others",
    }


def write(task):
    return TASKS[task].judge(trained(task).model, batch_of(task, STEPS, size=200))


QUESTIONS = {
    "fresh": Question(1, "the gradient check of new models", fresh),
    "norms": Question(1, "the norm of each gradient in the first step", norms),
    "moves": Question(1, "how far each array has moved after 5 steps", moves),
    "inputs": Question(1, "which changes of the input change the outputs", inputs),
    "modes": Question(1, "training and evaluation: what dropout does", modes),
    "schedule": Question(1, "the learning rates of some steps", schedule),
    "generic": Question(2, "the gradient check at a random point", generic),
    "op": Question(2, "one op or layer on its own, at generic and special points", op, at_points),
    "optimiser": Question(2, "its steps on known gradients", optimiser),
    "resume": Question(2, "ten steps without interruption, and resumed after five", resume),
    "write": Question(2, "the trained model on new data, writing on its own", write),
    "where": Question(
        3, "each array's gradient at a random point, in the order of the backward pass", where
    ),
    "theorems": Question(3, "which proved properties no longer hold", theorems),
}
