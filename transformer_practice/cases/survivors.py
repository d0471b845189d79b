"""Test your test: which planted mistakes does a check miss?"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from html import escape
from textwrap import fill
from typing import NamedTuple

import numpy as np

from transformer_practice.cases.questions import REFUSED, difference, outputs_of
from transformer_practice.cases.trainings import TASKS, batch_of, new_model
from transformer_practice.engine.exercise import Exercise
from transformer_practice.engine.planting import planted
from transformer_practice.engine.running import Failed, NotWritten, call, describe
from transformer_practice.engine.runs import files_of
from transformer_practice.exercises import find_exercise
from transformer_practice.judges.checks import randomised
from transformer_practice.mistakes import BACKWARD, CATALOGUE, FORWARD, Mutant

INDENTED: dict = dict.fromkeys(("initial_indent", "subsequent_indent"), 12 * " ")
UNWRITTEN = "your check is not written yet"
MODELS = {"Reconstructor": "same", "EncoderDecoder": "reversal"}  # and their tasks


@dataclass(frozen=True, repr=False)
class Survivors:
    """What a check has found.

    ``problem`` says why it is no test: it rejects the right package, or is not written yet. Else
    it is empty, and ``survived`` maps each mistake that the check misses to a sentence on what it
    would need.
    """

    name: str
    problem: str
    killed: tuple[str, ...]
    survived: dict[str, str]

    def __str__(self):
        if self.problem:
            return f"{self.name}: {self.problem}"
        of = len(self.killed) + len(self.survived)
        return "\n".join(
            [
                f"{self.name}: your check kills {len(self.killed)} of {of} mistakes",
                *(f"  killed    {name}" for name in self.killed),
                *(
                    f"  survived  {name}\n" + fill(need, 92, **INDENTED)
                    for name, need in self.survived.items()
                ),
            ]
        )

    __repr__ = __str__

    def _repr_html_(self):
        first, *_ = str(self).splitlines()
        rows = [(name, "killed", "") for name in self.killed]
        rows += [(name, "survived", need) for name, need in self.survived.items()]
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
        )
        head = "<tr><th>Mistake</th><th></th><th>What your check would need</th></tr>"
        return f"<p>{escape(first)}</p>" + (f"<table>{head}{body}</table>" if rows else "")


class Subject(NamedTuple):
    """What a check is handed, the mistakes that may be planted, and points that tell them."""

    given: tuple
    suspects: list[Mutant]
    see: Callable[[], dict[str, dict]]  # points to outputs, the generic one first


def survivors(name: str, check: Callable, seconds: float = 5.0) -> Survivors:
    """Plant each mistake of an op, a layer or a model, and see whether a check finds it.

    Mistakes that make no difference at any point of the exercise are left out.

    Parameters
    ----------
    name : str
        As for the examiner: "layer_norm", "FeedForward". Or "Reconstructor" or "EncoderDecoder".
    check : callable
        ``check(forward, backward)`` of the package's functions, methods of a layer without their
        ``self``; ``backward`` is None where there is none. Of a model, ``check(build)``, where
        ``build(dtype)`` is a new model. It fails by returning False or raising an error. What it
        uses of the package has the mistake, too.
    seconds : float
        How long one call may take.

    Returns
    -------
    Survivors

    Raises
    ------
    ValueError
        If there is no such name.
    """
    subject = model_subject(MODELS[name]) if name in MODELS else op_subject(find_exercise(name))
    problem = objection(check, subject.given, seconds)
    if problem:
        if problem != UNWRITTEN:
            problem = f"not a test: it rejects the right function: {problem}"
        return Survivors(name, problem, (), {})
    right = seen(subject)
    killed, survived = [], {}
    for mutant in subject.suspects:
        with planted(mutant):
            wrong = wrong_places(seen(subject), right)
            if not any(wrong.values()):
                continue
            found = objection(check, subject.given, seconds)
        if found:
            killed.append(mutant.name)
        else:
            survived[mutant.name] = need(mutant, wrong)
    return Survivors(name, "", tuple(killed), survived)


def objection(check, given, seconds):
    """What a check holds against what it is given; nothing if it passes."""
    try:
        return "" if call(passes, check, given, seconds=seconds) else "it returns False"
    except NotWritten:
        return UNWRITTEN
    except Failed as error:
        raised = error.__cause__
        if raised is None:  # it took too long
            return f"it {error}"
        frames = raised.__traceback__.tb_next.tb_next  # from the check's own on
        return f"it {describe(raised.with_traceback(frames))}"


def passes(check, given):
    answer = check(*given)
    return answer is None or bool(answer)


def seen(subject):
    with np.errstate(all="ignore"):
        try:
            return subject.see()
        except REFUSED as error:
            return {"any input": {"the outputs": str(error)}}


def wrong_places(found, right):
    """Return, for each point, the outputs that are wrong there, by how much."""
    if found.keys() != right.keys():
        return found
    wrong = {}
    for point, outputs in found.items():
        failures = {name: v for name, v in outputs.items() if isinstance(v, str)}
        wrong[point] = failures or {
            name: how
            for name, value in right[point].items()
            if (how := difference(outputs[name], value))
        }
    return wrong


def need(mutant, wrong):
    """Say in a sentence what a check would need to find a mistake."""
    generic, *_ = wrong
    at, outputs = next((point, names) for point, names in wrong.items() if names)
    blind = [point for point, names in wrong.items() if not names]
    if mutant.place == FORWARD:
        advice = "Its gradients may match it: compare y with numbers from elsewhere"
    elif generic in blind:
        advice = "No random point shows it: look for the special one"
    elif blind:
        advice = f"It is right at: {' / '.join(blind)}. Check somewhere else"
    else:
        advice = "It is wrong at every point: compare every output"
        if mutant.place == BACKWARD:
            advice += ", and draw the cotangent: a cotangent of ones hides what sums to 0"
    worst = ", ".join(f"{name} {how}" for name, how in list(outputs.items())[:2])
    mistake = mutant.mistake[0].upper() + mutant.mistake[1:]
    return f"{mistake}. {advice} (at {at}: {worst})."


def op_subject(exercise: Exercise) -> Subject:
    suspects = [mutant for mutant in CATALOGUE if mutant.file in files_of(exercise)]
    given = exercise.forward, exercise.backward
    return Subject(given, suspects, partial(outputs_of, exercise))


def model_subject(task: str) -> Subject:
    suspects = [
        mutant
        for mutant in CATALOGUE
        if mutant.place in (FORWARD, BACKWARD)
        and mutant.file.partition("/")[0] in ("ops", "layers", "models")
    ]

    def build(dtype=np.float64):
        return new_model(task, dtype)

    def outputs(prepare, sequences, dropout):
        model = prepare(build())
        rng = np.random.default_rng(1) if dropout else None
        loss, grads = model.loss_and_gradients(
            *batch_of(task, size=sequences), rng=rng, **TASKS[task].settings
        )
        return {"loss": loss} | grads

    def see():
        return {
            "generic": outputs(randomised, 3, True),
            "new parameters": outputs(lambda model: model, 3, True),
            "one sequence": outputs(randomised, 1, True),
            "no dropout": outputs(randomised, 3, False),
        }

    return Subject((build,), suspects, see)
