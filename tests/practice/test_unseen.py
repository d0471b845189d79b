"""Answers by somebody who had not seen the catalogue: what is right is called right, and no more.

Each has its author's word for the mistake, and the grade that an independent reader gave the first
report on it. That they are named is not asked for here, or the examiner would be mended for them.
"""

import sys
import tomllib
from types import ModuleType

import numpy as np
import pytest
from helpers.texts import ROOT

from transformer_practice import examine
from transformer_practice.engine.exercise import written_in
from transformer_practice.exercises import find_exercise

ANSWERS = [
    answer
    for path in sorted((ROOT / "tests/practice/unseen").glob("*.toml"))
    for answer in tomllib.loads(path.read_text(encoding="utf-8"))["answer"]
]
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer["id"])
def test_what_is_right_is_called_right_and_nothing_else_is(answer, monkeypatch):
    module = ModuleType("unseen")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.np = np
    exec(answer["code"], vars(module))
    report = examine(
        answer["exercise"], *written_in(find_exercise(answer["exercise"]), vars(module))
    )
    assert report.right == (answer["kind"] == "right")
