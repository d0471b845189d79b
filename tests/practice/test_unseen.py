"""Answers by somebody who had not seen the catalogue: what is right is called right, and no more.

Each has its author's word for the mistake, and the grade of the first report on it, in all but the
second set by an independent reader. That they are named is not asked for here, or the
examiner would be mended for them.
"""

import sys
import tomllib
from types import ModuleType

import numpy as np
import pytest
from helpers.texts import ROOT, read
from practice.versions import edited

from transformer_practice import examine
from transformer_practice.engine.exercise import written_in
from transformer_practice.exercises import find_exercise
from transformer_practice.mistakes import edits_of

ANSWERS = [
    (answer["id"], answer["exercise"], answer["code"], answer["kind"] == "right")
    for path in [
        *sorted((ROOT / "tests/practice/unseen").glob("*.toml")),
        ROOT / "tests/practice/unseen_third.toml",
        ROOT / "tests/practice/unseen_fourth.toml",
    ]
    for answer in tomllib.loads(path.read_text(encoding="utf-8"))["answer"]
    if "beyond" not in answer
]
for right in tomllib.loads(read(ROOT / "tests/practice/unseen_second.toml"))["exercise"]:
    name, code = right["exercise"], right["code"]
    ANSWERS.append((name, name, code, True))
    for wrong in right["wrong"]:
        about = f"{name}: {wrong['mistake']}"
        changed = edited(about, code, edits_of(wrong["edits"]))
        ANSWERS.append((about, name, changed, False))
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "exercise, code, right", [each[1:] for each in ANSWERS], ids=[each[0] for each in ANSWERS]
)
def test_what_is_right_is_called_right_and_nothing_else_is(exercise, code, right, monkeypatch):
    module = ModuleType("unseen")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.np = np
    exec(code, vars(module))
    report = examine(exercise, *written_in(find_exercise(exercise), vars(module)))
    assert report.right == right
