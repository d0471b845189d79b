"""Whatever a reader's code does to its process, the command goes on and says it in a sentence."""

import multiprocessing
import re

import pytest

from transformer_practice.__main__ import main
from transformer_practice.engine import repair
from transformer_practice.exercises import find_exercise
from transformer_practice.workspace import examined, room
from transformer_practice.workspace.examined import RIGHT, WRONG, examine_chapter

CHAPTER = "130_softmax"
SOFTMAX = """
import ctypes, os, sys
import numpy as np

def log_softmax(x):
    y = x - x.max(-1, keepdims=True)
    y = y - np.log(np.exp(y).sum(-1, keepdims=True))
    return y, y

def log_softmax_backward(dy, cache):
    return dy - np.exp(cache) * dy.sum(-1, keepdims=True)

{before}
def softmax(scores, keep=None):
    {inside}
    return scores, scores
"""
ENDS = {  # what a function does, and how the report on it begins
    "os._exit(0)": "ends the Python process with the exit status 0.",
    "ctypes.string_at(0)": "ends the Python process with the signal SIGSEGV.\n    130_softmax.py, ",
    "sys.exit()": "raises SystemExit.",
    "np.ones(2**28)": "raises MemoryError: ",
    "np.sqrt = np.exp": "replaces np.sqrt, which all other code uses, too.",
    "import math; math.exp = abs": "replaces math.exp, which all other code",
    "os.chdir('/')": "changes the folder in which the program works.",
    "os.fork()": "starts another process.",
    "sys.stdout.close()": "closes the standard output.",
    "os.close(1)": "closes the standard output.",
    "print('x' * 10**7, flush=True)": "raises OSError: [Errno 27] File too large.",
}


@pytest.fixture(autouse=True)
def without_own_lines(request, monkeypatch):
    if not request.node.get_closest_marker("own_lines"):
        monkeypatch.setattr(repair, "CHANGES", 0)


def examine(folder, inside="pass", before=""):
    """Return what is found of the two exercises, by name."""
    text = SOFTMAX.format(inside=inside, before=before)
    (folder / f"{CHAPTER}.py").write_text(text)
    found = examine_chapter(
        folder, CHAPTER, [find_exercise("log_softmax"), find_exercise("softmax")]
    )
    return {each.name: each for each in found}


def ends(folder, inside):
    found = examine(folder, inside)
    assert found["log_softmax"].state == RIGHT
    assert found["softmax"].state == WRONG
    return str(found["softmax"].report)


@pytest.mark.slow
@pytest.mark.parametrize("inside", ENDS)
def test_what_a_function_does_to_its_process_is_said_and_the_next_one_is_examined(tmp_path, inside):
    assert ends(tmp_path, inside).startswith(f"softmax: {ENDS[inside]}")
    assert "np.exp" in SOFTMAX  # which log_softmax needs after the change of softmax


@pytest.mark.slow
def test_a_loop_in_c_is_ended_and_its_line_said(tmp_path):
    report = ends(tmp_path, "10 ** 10**9")
    line = r"softmax: did not return within 5 s: .*\?\n    130_softmax.py, line \d+, in softmax"
    assert re.match(line, report)


@pytest.mark.slow
def test_what_cannot_be_stopped_is_left_behind_in_its_process(tmp_path):
    endless = "\n".join(
        (
            "while True:",
            "        try:",
            "            while True: pass",
            "        except BaseException: pass",
        )
    )
    assert ends(tmp_path, endless).startswith("softmax: did not return within 5 s: ")
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize(
    "before, said",
    {
        "os._exit(3)": "ends the Python process with the exit status 3",
        "np.exp = np.log": "replaces np.exp, which all other code uses, too",
        "1 / 0": "does not run: raises ZeroDivisionError: division by zero, line 13: 1 / 0",
    }.items(),
)
def test_what_the_file_does_is_said_of_all_its_exercises(tmp_path, before, said):
    found = examine(tmp_path, before=before)
    assert {each.line for each in found.values()} == {f"wrong: 130_softmax.py {said}"}


def test_the_start_of_what_is_printed_is_reported(tmp_path):
    report = examine(tmp_path, "print('a\\n' * 5000)")["softmax"].report
    assert report.printed.startswith("a\na\n") and len(report.printed) < 3000
    assert re.search(
        r"\.\.\. and \d+ more characters$", report.whole().partition("  ->")[0].strip()
    )
    assert "Printed:\n" + 5 * "  a\n" + "    ...\n" in str(report)


def test_a_change_of_numpy_changes_no_verdict_of_another_file(tmp_path):
    """The file that changes it comes first: the package's own numbers are made after that."""
    changed, own = tmp_path / f"{CHAPTER}.py", tmp_path / "150_layer_norm.py"
    changed.write_text(SOFTMAX.format(before="np.sqrt = lambda x: x", inside="pass"))
    own.write_text(
        "import numpy as np\n\ndef layer_norm(x, gamma, beta, eps=1e-5):\n"
        "    centred = x - x.mean(-1, keepdims=True)\n"
        "    return gamma * centred / (x.var(-1, keepdims=True) + eps) + beta, None\n"
    )
    list(examine_chapter(tmp_path, CHAPTER, [find_exercise("softmax")]))
    (found,) = examine_chapter(tmp_path, "150_layer_norm", [find_exercise("layer_norm")])
    assert found.report.verdict == "layer_norm: y is wrong."


@pytest.mark.thorough
@pytest.mark.own_lines
def test_without_processes_the_same_code_says_the_same(tmp_path, monkeypatch):
    apart = {name: str(each.report) for name, each in examine(tmp_path).items()}
    monkeypatch.setattr(examined, "PROCESSES", False)
    assert {name: str(each.report) for name, each in examine(tmp_path).items()} == apart


@pytest.mark.slow
def test_where_no_process_can_be_forked_it_is_started_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "CONTEXT", multiprocessing.get_context("spawn"))
    assert ends(tmp_path, "os._exit(0)").startswith("softmax: ends the Python process")


TRAINED = """
import os
import sys
import time
import numpy as np

def linear(x, weight, bias):
    {inside}
    return x @ weight + bias, (x, weight)

def linear_backward(dy, cache):
    x, weight = cache
    rows = dy.reshape(-1, dy.shape[-1])
    return dy @ weight.T, x.reshape(-1, x.shape[-1]).T @ rows, rows.sum(0)
"""
IN_TRAINING = {
    "sys.exit(0)": "linear raises SystemExit: 0",
    "os._exit(0)": "a function of yours ends the Python process with the exit status 0",
    "np.sqrt = lambda x: x": "a function of yours replaces np.sqrt",
    "x = x * np.nan": "linear is the first to return numbers that are not finite",
    "return x @ (weight * 1.01) + bias, (x, weight)": "The scores differ by up to",
}


@pytest.mark.slow
@pytest.mark.parametrize("inside", IN_TRAINING)
def test_a_training_says_what_a_function_does_there(tmp_path, capsys, inside):
    """What is right where it is examined does it for the many rows of a training alone."""
    text = TRAINED.format(inside=f"if len(x) > 30: {inside}")
    (tmp_path / "120_linear.py").write_text(text)
    status = main(["train", str(tmp_path), "encoder", "--epochs", "2"])
    captured = capsys.readouterr()
    assert status == (not inside.startswith("return"))
    assert IN_TRAINING[inside] in " ".join((captured.out + captured.err).split())


@pytest.mark.slow
def test_a_training_that_stands_still_is_ended(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("transformer_practice.workspace.substitution.SECONDS", 0.5)
    text = TRAINED.format(inside="if len(x) > 30: time.sleep(100)")
    (tmp_path / "120_linear.py").write_text(text)
    assert main(["train", str(tmp_path), "encoder", "--epochs", "2"]) == 1
    said = "a function of yours did not return within 0.5 s: is there a loop that never ends?"
    assert said in " ".join(capsys.readouterr().err.split())
