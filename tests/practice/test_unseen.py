"""Answers by somebody who had not seen the catalogue: what is right is called right, and no more.

Each has its author's word for the mistake, and the grade of the first report on it, in all but the
second set by an independent reader. That they are named is not asked for here, or the examiner
would be mended for them; the mistakes of the newest set are explained, those of the others are not.
"""

import sys
import tomllib
from types import ModuleType

import numpy as np
import pytest
from helpers.sources import run_with_source
from helpers.texts import ROOT, read
from practice.versions import edited

from transformer_practice import examine
from transformer_practice.engine import examiner, repair
from transformer_practice.engine.exercise import written_in
from transformer_practice.exercises import find_exercise
from transformer_practice.mistakes import edits_of

FOLDER = ROOT / "tests/practice"
NEWEST = FOLDER / "unseen_ninth.toml"
NUMBERS = "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"
ANSWERS = [
    (answer["id"], answer["exercise"], answer["code"], answer["kind"] == "right", path == NEWEST)
    for path in [
        *sorted((FOLDER / "unseen").glob("*.toml")),
        *(FOLDER / f"unseen_{number}.toml" for number in NUMBERS),
    ]
    for answer in tomllib.loads(path.read_text(encoding="utf-8"))["answer"]
    if "beyond" not in answer
]
for right in tomllib.loads(read(FOLDER / "unseen_second.toml"))["exercise"]:
    name, code = right["exercise"], right["code"]
    ANSWERS.append((name, name, code, True, False))
    for wrong in right["wrong"]:
        about = f"{name}: {wrong['mistake']}"
        changed = edited(about, code, edits_of(wrong["edits"]))
        ANSWERS.append((about, name, changed, False, False))
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "exercise, code, right, newest", [each[1:] for each in ANSWERS], ids=[e[0] for e in ANSWERS]
)
def test_what_is_right_is_called_right_and_nothing_else_is(
    exercise, code, right, newest, monkeypatch
):
    if not newest:
        monkeypatch.setattr(examiner, "explain", lambda stage: ())
        monkeypatch.setattr(repair, "CHANGES", 0)
    module = ModuleType("unseen")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.np = np
    run_with_source(code, vars(module))
    report = examine(exercise, *written_in(find_exercise(exercise), vars(module)))
    assert report.right == right
