"""The solutions that are folded on the pages: right, and the examiner sees every slip in them."""

import ast
import re

import numpy as np
import pytest
from helpers.texts import ROOT, read

from transformer_core import layers, ops, optim
from transformer_practice import examine
from transformer_practice.engine import examiner
from transformer_practice.engine.exercise import LayerExercise, UpdateExercise, names_of, written_in
from transformer_practice.exercises import every_exercise

FENCE = re.compile(r"^(`{3,})\{solution\} (\S+)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SWAPPED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}


def first_name(exercise):
    """What a page's code has to define to be an answer."""
    if isinstance(exercise, LayerExercise | UpdateExercise):
        return exercise.name
    return names_of(exercise)[0]


def solutions():
    """Yield every solution that is code: its label, its exercise, its text."""
    exercises = {(e.chapter, first_name(e)): e for e in every_exercise()}
    for page in sorted(ROOT.glob("book/[0-9]*.md")):
        for _, label, text in FENCE.findall(read(page)):
            code = "\n\n".join(CODE.findall(text))
            for name in re.findall(r"^(?:def|class) (\w+)", code, re.MULTILINE):
                if (page.stem, name) in exercises:
                    yield label, exercises[page.stem, name], code


SOLUTIONS = list(solutions())

every_solution = pytest.mark.parametrize(
    "exercise, code",
    [(exercise, code) for _, exercise, code in SOLUTIONS],
    ids=[f"{exercise.chapter}-{exercise.name}" for _, exercise, _ in SOLUTIONS],
)


def report_of(exercise, code):
    namespace = {"np": np}
    for room in (ops, layers, optim):
        namespace |= {name: getattr(room, name) for name in room.__all__}
    exec(compile(code, exercise.chapter, "exec"), namespace)
    return examine(exercise.name, *written_in(exercise, namespace))


def test_there_are_solutions_in_code_on_many_pages():
    assert len({exercise.chapter for _, exercise, _ in SOLUTIONS}) >= 15


@pytest.mark.parametrize(
    "exercise, code",
    [
        pytest.param(
            exercise,
            code,
            marks=[pytest.mark.thorough] * (number % 3 > 0),
            id=f"{exercise.chapter}-{exercise.name}",
        )
        for number, (_, exercise, code) in enumerate(SOLUTIONS)
    ],
)
def test_the_solution_on_the_page_is_right(exercise, code):
    report = report_of(exercise, code)
    assert report.right, str(report)


def slips(code):
    """Yield the code with one arithmetic operator exchanged: what was planted, and the code."""
    count = sum(isinstance(node, ast.BinOp) for node in ast.walk(ast.parse(code)))
    for number in range(count):
        tree = ast.parse(code)
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp)]
        node = nodes[number]
        other = SWAPPED.get(type(node.op))
        if other:
            before = ast.unparse(node)
            node.op = other()
            yield f"{before} -> {ast.unparse(node)}", ast.unparse(tree)


@pytest.mark.slow
@every_solution
def test_no_slip_in_the_solution_passes(exercise, code, monkeypatch):
    monkeypatch.setattr(examiner, "explain", lambda *_: ())  # is it seen? that is all
    passed = []
    for slip, wrong in slips(code):
        try:
            if report_of(exercise, wrong).right:
                passed.append(slip)
        except (ArithmeticError, TypeError, ValueError):  # while it is defined
            continue
    harmless = [slip for slip in passed if slip in HARMLESS]
    assert passed == harmless


# Exchanges after which the function is the same, and why.
HARMLESS: dict[str, str] = {}
