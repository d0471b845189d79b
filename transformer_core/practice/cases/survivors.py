"""Test your test: which planted mistakes does a check let live?"""

from collections.abc import Callable
from functools import partial
from html import escape
from typing import Any, NamedTuple

import numpy as np

from transformer_core.practice.cases.questions import (
    REFUSED,
    difference,
    outputs_of,
)
from transformer_core.practice.cases.trainings import TASKS, batch_of, new_model
from transformer_core.practice.catalogue import BACKWARD, CATALOGUE, FORWARD, Mutant
from transformer_core.practice.checks import randomised
from transformer_core.practice.exercise import Exercise
from transformer_core.practice.exercises import find_exercise
from transformer_core.practice.planting import planted
from transformer_core.practice.running import Failed, NotWritten, call, describe

MODELS = {"Reconstructor": "same", "EncoderDecoder": "reversal"}  # and their tasks


class Survivors(NamedTuple):
    """What a check has found.

    ``rejects`` says what it holds against the right package: None, or it is no test. ``survived``
    maps each mistake that it lets live to a sentence on what it would need.
    """

    name: str
    rejects: str | None
    killed: tuple[str, ...]
    survived: dict[str, str]

    def __str__(self):
        if self.rejects is not None:
            return f"{self.name}: no test, it rejects the right one: {self.rejects}"
        of = len(self.killed) + len(self.survived)
        return "\n".join(
            [
                f"{self.name}: your check kills {len(self.killed)} of {of} mistakes",
                *(f"  killed    {name}" for name in self.killed),
                *(
                    f"  survived  {name}\n            {need}"
                    for name, need in self.survived.items()
                ),
            ]
        )

    def _repr_html_(self):
        first, *_ = str(self).splitlines()
        rows = [(name, "killed", "") for name in self.killed]
        rows += [(name, "survived", need) for name, need in self.survived.items()]
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in rows
        )
        head = "<tr><th>Mistake</th><th></th><th>What your check would need</th></tr>"
        return f"<p>{escape(first)}</p>" + (
            f"<table>{head}{body}</table>" if rows else ""
        )


class Subject(NamedTuple):
    """What a check is handed, the mistakes that may be planted, and points that tell them."""

    given: tuple
    suspects: list[Mutant]
    see: Callable[
        [], dict[str, dict[str, Any]]
    ]  # points to outputs, the generic one first


def survivors(name: str, check: Callable, seconds: float = 5.0) -> Survivors:
    """Plant each mistake of an op, a layer or a model, and see whether a check finds it.

    Parameters
    ----------
    name : str
        As for the examiner: "layer_norm", "FeedForward". Or "Reconstructor" or "EncoderDecoder".
    check : callable
        ``check(forward, backward)`` of the package's functions, methods of a layer without their
        ``self``; ``backward`` is None where there is none. Of a model, ``check(build)``, where
        ``build(dtype)`` is a new model. It fails by returning False or raising anything.
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
    subject = (
        model_subject(MODELS[name])
        if name in MODELS
        else op_subject(find_exercise(name))
    )
    rejects = objection(check, subject.given, seconds)
    if rejects is not None:
        return Survivors(name, rejects, (), {})
    right = seen(subject)
    killed, survived = [], {}
    for mutant in subject.suspects:
        with planted(mutant):
            wrong = wrong_places(seen(subject), right)
            if not any(wrong.values()):
                continue
            found = objection(check, subject.given, seconds) is not None
        if found:
            killed.append(mutant.name)
        else:
            survived[mutant.name] = need(mutant, wrong)
    return Survivors(name, None, tuple(killed), survived)


def objection(check, given, seconds):
    """What a check holds against what it is given, or None."""
    try:
        (answer,) = call(lambda: (check(*given),), seconds=seconds)
    except NotWritten:
        return "it is not written yet"
    except Failed as error:
        raised = error.__cause__
        if raised is None:  # it took too long
            return f"it {error}"
        frames = raised.__traceback__.tb_next.tb_next  # from the check's own on
        return f"it {describe(raised.with_traceback(frames))}"
    return None if answer is None or answer else f"it returns {answer}"


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
    return {
        point: {
            name: how
            for name, value in right[point].items()
            if (how := difference(outputs.get(name), value))
        }
        for point, outputs in found.items()
    }


def need(mutant, wrong):
    """Say in a sentence what a check would need to find a mistake."""
    at, outputs = next((point, names) for point, names in wrong.items() if names)
    blind = [point for point, names in wrong.items() if not names]
    worst = ", ".join(f"{name} {how}" for name, how in list(outputs.items())[:2])
    if mutant.place == FORWARD:
        advice = "A forward pass needs numbers that do not come from it, or a theorem"
    elif blind:
        advice = f"It is right at: {', '.join(blind)}. Check away from there"
    else:
        advice = f"It is wrong wherever it is looked at: compare {next(iter(outputs))}"
    return (
        f"{mutant.mistake[0].upper()}{mutant.mistake[1:]}. {advice} (at {at}: {worst})."
    )


def op_subject(exercise: Exercise) -> Subject:
    suspects = [mutant for mutant in CATALOGUE if mutant.file in exercise.files()]
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
            *batch_of(task, sequences), rng=rng, **TASKS[task].settings
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
