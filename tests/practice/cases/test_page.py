"""What the page says of the museum, and its solutions."""

import re

import numpy as np
import pytest
from helpers.texts import ROOT, read

from transformer_practice.cases import survivors
from transformer_practice.cases.museum import lines
from transformer_practice.cases.questions import QUESTIONS
from transformer_practice.mistakes import MUTANTS

PAGE = read(ROOT / "book/370_blind_cases.md")


def test_the_table_of_prices_is_that_of_the_museum():
    rows = re.findall(r"^\| `(\w+)[^`]*` \| (\d) \| ([^{|]+) \|$", PAGE, re.MULTILINE)
    assert rows == [(n, str(q.price), q.about) for n, q in QUESTIONS.items()]


def test_the_line_that_the_page_names_is_that_of_its_case():
    (line,) = re.findall(r"name 3 ops/layer_norm.py:(\d+)$", PAGE, re.MULTILINE)
    assert [[int(line)]] == [[*span] for span in lines(MUTANTS["layer-norm-gamma-outside"])]


@pytest.mark.parametrize("name", ["layer_norm", "softmax"])
def test_the_checks_of_the_solutions_leave_no_survivor(name):
    label = f"ex-cases-{name.replace('_', '-')}"
    (text,) = re.findall(rf"````{{solution}} {label}\n(.*?)````\n", PAGE + "\n", re.DOTALL)
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    space: dict = {"np": np}
    exec(code, space)
    report = survivors(name, space["check"])
    assert not report.problem and not report.survived, str(report)
    assert len(report.killed) >= 8
