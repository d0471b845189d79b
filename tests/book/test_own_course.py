"""The page on exercises of one's own: its code, what it prints, and the command line."""

import json
import re
from textwrap import dedent

import pytest
from helpers.sources import run_with_source
from helpers.texts import ROOT, read

from transformer_practice.__main__ import main
from transformer_practice.engine import repair
from transformer_practice.exercises import exercises_in
from transformer_practice.workspace import examined, room

PAGE = read(ROOT / "book/own_course.md")
COURSE, FORGETFUL, *OTHERS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
PRINTED = re.findall(r"^```text\n(.*?)^```$", PAGE, re.M | re.S)
ANSWER = f"""
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

{FORGETFUL.replace("forgetful", "convolve_backward")}
def convolve(x, w):
    return sliding_window_view(x, len(w), axis=-1) @ w, (sliding_window_view(x, len(w), axis=-1), w)
"""
FEW = 30  # changes of an answer's lines: one that is left out is among them, w in reverse is not


@pytest.fixture(autouse=True)
def few_changes(monkeypatch):
    monkeypatch.setattr(repair, "CHANGES", FEW)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "course.py").write_text(COURSE)
    (tmp_path / "answers.py").write_text(ANSWER)
    return tmp_path


@pytest.fixture
def page(folder):
    """Return the names of the page's code, the course's in a file as any other."""
    (exercise,) = exercises_in(folder / "course.py")
    names = vars(__import__("sys").modules[exercise.forward.__module__]).copy()
    run_with_source(FORGETFUL, names)
    return names


@pytest.mark.parametrize("changes", [FEW, pytest.param(repair.CHANGES, marks=pytest.mark.thorough)])
def test_the_page_prints_what_its_code_prints(page, capsys, monkeypatch, changes):
    monkeypatch.setattr(repair, "CHANGES", changes)
    monkeypatch.setattr(repair, "SHORTEST", 5.0)  # whatever else runs on the machine
    for block, printed in zip(OTHERS, PRINTED, strict=False):
        run_with_source(block, page)
        said = capsys.readouterr().out
        if changes == FEW:
            printed = re.sub(r".*`w\[::-1\]` replaced `w`.*\n\n", "", printed)
        assert said.strip() == printed.strip()
    exec(OTHERS[-1], page)
    with pytest.raises(AssertionError, match="dx is wrong, dw is right"):
        page["test_convolve"]()
    assert len(COURSE.strip().splitlines()) <= 24


def run(folder, capsys, *options):
    files = str(folder / "answers.py"), "--course", str(folder / "course.py")
    status = main(["examine", *files, *options])
    return status, capsys.readouterr()


def test_the_command_examines_a_file_of_another_course(folder, capsys):
    status, told = run(folder, capsys)
    assert status == 1 and "dx is what you would get if w were in reverse order" in told.out
    assert "generic, other sizes" not in told.out
    status, told = run(folder, capsys, "convolve", "--all")
    assert status == 1 and "generic, other sizes" in told.out
    assert not {"FOLDER", "chapter", "hint"} & set(re.findall(r"\w+", told.out))


@pytest.mark.thorough
def test_the_command_prints_json(folder, capsys):
    status, told = run(folder, capsys, "--json")
    (found,) = json.loads(told.out)
    assert status == 1
    assert found["name"] == "convolve" and found["state"] == "wrong" and not found["right"]
    assert found["errors"]["dw"]["generic"] < 1e-12 < found["errors"]["dx"]["generic"]
    answers = ANSWER.replace("axis=-1) @ w\n    return", "axis=-1) @ w[::-1]\n    return")
    (folder / "answers.py").write_text(answers)
    status, told = run(folder, capsys, "--json")
    assert status == 0 and json.loads(told.out)[0]["state"] == "right"


def test_errors_without_a_number_are_null(folder, capsys):
    nan = ANSWER.replace("return dx,", "return dx * np.nan,")
    (folder / "answers.py").write_text(nan)
    _, told = run(folder, capsys, "--json")
    (found,) = json.loads(told.out)
    assert found["errors"]["dx"] == {"generic": None, "generic, other sizes": None}


@pytest.mark.parametrize("processes", [pytest.param("spawn", marks=pytest.mark.thorough), None])
def test_where_nothing_forks_it_is_the_same(folder, capsys, monkeypatch, processes):
    mean = ANSWER.replace("@ w\n", "@ w[::-1]\n", 1).replace("windows)", "windows) / len(dy)")
    (folder / "answers.py").write_text(mean)
    expected = run(folder, capsys)
    if processes:
        monkeypatch.setattr(room, "CONTEXT", room.multiprocessing.get_context(processes))
    else:
        monkeypatch.setattr(examined, "PROCESSES", False)
    status, told = run(folder, capsys)
    assert status == 1 and (status, told) == expected
    assert "dw would be right if, in line 9, `/ len(dy)` were left out" in told.out
    assert "dw is 1/B times what it should be" in told.out


@pytest.mark.parametrize(
    ("course", "said"),
    [
        ("EXERCISES = []", "expected a list EXERCISES, got []"),
        ("EXERCISES = [1]", "expected an Exercise in EXERCISES, got 1"),
        ("", "expected a list EXERCISES, got None"),
        (None, "expected a file of Python with a list EXERCISES, found none"),
    ],
)
def test_a_course_without_exercises_is_said_to_be_one(folder, capsys, course, said):
    path = folder / f"course_{len(said)}.py"
    if course is not None:
        path.write_text(course)
    answers = str(folder / "answers.py")
    assert main(["examine", answers, "--course", str(path)]) == 1
    assert said in capsys.readouterr().err


def test_a_file_without_functions_of_the_course_is_said_to_be_one(folder, capsys):
    (folder / "answers.py").write_text("def other(): return 1\n")
    status, told = run(folder, capsys)
    assert status == 1 and "expected functions of the course, found none" in told.err
    assert main(["examine", str(folder / "none.py")]) == 1
    assert "expected a Python file, found none" in capsys.readouterr().err


def test_a_file_of_this_book_needs_no_course(folder, capsys):
    text = """
        import numpy as np

        def linear(x, weight, bias=None):
            return x @ weight + (0 if bias is None else bias), None
    """
    (folder / "answers.py").write_text(dedent(text))
    assert main(["examine", str(folder / "answers.py"), "linear"]) == 0
    assert "linear: right" in capsys.readouterr().out
