"""A workspace is plain files: written once, and read anew each time."""

import ast
import os
import time
from itertools import islice

import pytest

from transformer_practice.engine.exercise import names_of
from transformer_practice.engine.pages import numbered
from transformer_practice.workspace import folder as workspace
from transformer_practice.workspace.folder import (
    chapters,
    file_of,
    lacking,
    last_written,
    read,
    start,
    states,
    strays,
)

LINEAR = """\
def linear(x, weight, bias):
    return x @ weight + bias, (x, weight)


def linear_backward(dy, cache):
    raise NotImplementedError
"""


def own(folder, name="linear", chapter="120_linear"):
    owns = read(folder / file_of(chapter), chapters()[chapter])
    (found,) = [each for each in owns if each.exercise.name == name]
    return found


def write(folder, text, chapter="120_linear"):
    (folder / file_of(chapter)).write_text(text, encoding="utf-8")


def test_every_chapter_has_a_file_of_stubs(tmp_path):
    written, left = start(tmp_path / "new" / "folder")
    assert left == []
    assert written == ["README.txt", *map(file_of, chapters())]
    assert written[1:] == sorted(written[1:])
    for chapter, exercises in chapters().items():
        path = tmp_path / "new" / "folder" / file_of(chapter)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert len(workspace.stubs_in(tree)) == sum(map(len, map(names_of, exercises)))
        text = path.read_text(encoding="utf-8")
        assert "import numpy as np\n" in text
        assert max(map(len, text.splitlines())) <= 88
        words = " ".join(text.split())
        for exercise in exercises:
            for about in exercise.functions:
                assert f"{numbered(about.equation)} {about.shapes}" in words
        for each in read(path, chapters()[chapter]):
            assert not each.written and not each.problem


def test_the_first_steps_name_the_folder(tmp_path):
    start(tmp_path)
    assert f"practice check {tmp_path} linear" in (tmp_path / "README.txt").read_text()


def test_a_stub_is_not_written_and_a_function_is(tmp_path):
    write(tmp_path, LINEAR)
    forward, backward = own(tmp_path).functions
    assert forward.__name__ == "linear"
    assert backward is None


@pytest.mark.parametrize(
    "body", ["...", "pass", "'''eq:linear'''", "raise NotImplementedError('later')"]
)
def test_what_says_nothing_is_a_stub(tmp_path, body):
    write(tmp_path, f"def linear(x, weight, bias):\n    {body}\n")
    assert own(tmp_path).functions == (None, None)


def test_methods_are_found_in_their_class(tmp_path):
    write(
        tmp_path,
        "class Linear:\n    def forward(self, x):\n        return x, None\n\n"
        "    def backward(self, dy, cache):\n        raise NotImplementedError\n",
    )
    forward, backward = own(tmp_path, "Linear").functions
    assert forward("self", 1) == (1, None)
    assert backward is None


@pytest.mark.parametrize(
    "text, name, problem, absent",
    [
        (
            LINEAR.replace("linear(", "linaer("),
            "linear",
            "there is no linear: is linaer meant to be it?",
            ("linear",),
        ),
        (
            LINEAR.replace("linear_backward", "linear_bakward"),
            "linear",
            "there is no linear_backward: is linear_bakward meant to be it?",
            ("linear_backward",),
        ),
        (
            "class Linaer:\n    def forward(self, x):\n        return x, x\n",
            "Linear",
            "there is no Linear: is Linaer meant to be it?",
            ("Linear",),
        ),
        (
            "class Linear:\n    def foward(self, x):\n        return x, x\n",
            "Linear",
            "there is no Linear.forward: is foward meant to be it?",
            ("Linear.forward",),
        ),
        ("def helper(x):\n    return x\n", "Linear", "", ("Linear",)),
        (LINEAR.replace("linear(", "mine("), "linear", "", ("linear",)),
        (LINEAR, "linear", "", ()),
        (LINEAR.replace("linear_", "one_linear_"), "linear", "", ("linear_backward",)),
        ("linear = 3", "linear", "linear: expected a function", ()),
        ("Linear = 3", "Linear", "Linear: expected a class", ()),
        ("class Linear:\n    forward = 3", "Linear", "Linear.forward: expected a function", ()),
    ],
)
def test_what_has_another_name_or_is_no_function_is_told(tmp_path, text, name, problem, absent):
    write(tmp_path, text)
    found = own(tmp_path, name)
    assert (found.problem, found.absent) == (problem, absent)


def test_what_came_later_is_told(tmp_path):
    start(tmp_path)
    assert list(lacking(tmp_path)) == []
    write(tmp_path, LINEAR)
    (tmp_path / "130_softmax.py").unlink()
    write(tmp_path, "def (", "150_layer_norm")
    assert list(lacking(tmp_path)) == [("120_linear.py", ["Linear", "three_linear"])]


def test_what_stands_in_another_chapters_file_alone_is_told(tmp_path):
    start(tmp_path)
    layer = "class Linear:\n    def forward(self, x):\n        return x, x\n"
    stub = "class FeedForward:\n    def forward(self, x):\n        ...\n"
    write(tmp_path, f"{layer}\n\n{stub}", "270_residual")
    assert list(strays(tmp_path)) == [("Linear", "270_residual.py", "120_linear.py")]
    write(tmp_path, layer)
    assert list(strays(tmp_path)) == []


def test_the_chapter_that_was_written_last_is_known(tmp_path):
    start(tmp_path)
    assert last_written(tmp_path) == "120_linear"
    write(tmp_path, "x = 1", "150_layer_norm")
    os.utime(tmp_path / "150_layer_norm.py", ns=(1, 1))
    assert last_written(tmp_path) == "150_layer_norm"
    write(tmp_path, "x = 1", "130_softmax")
    assert last_written(tmp_path) == "130_softmax"


def test_without_a_file_nothing_is_written(tmp_path):
    assert not own(tmp_path).written
    assert not own(tmp_path).problem


@pytest.mark.parametrize(
    "text, problem",
    [
        ("x = (\n", r"line 1: '(' was never closed"),
        ("import numpy\n\n1 / 0\n", "ZeroDivisionError: division by zero, line 3: 1 / 0"),
        ("import nothing_of_this_name", "No module named 'nothing_of_this_name', line 1"),
        ("raise SystemExit(3)", "raises SystemExit: 3, line 1: raise SystemExit(3)"),
        ("x = '\0'", "null byte"),
        (b"x = '\xe4'\n", "utf-8"),
    ],
)
def test_a_file_that_does_not_run_says_why(tmp_path, text, problem):
    path = tmp_path / "120_linear.py"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    for each in read(tmp_path / "120_linear.py", chapters()["120_linear"]):
        assert not each.written
        assert each.problem.startswith("120_linear.py does not run: ")
        assert problem in each.problem
        assert "\n" not in each.problem


def test_a_file_that_never_ends_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(workspace, "SECONDS_TO_RUN", 0.2)
    write(tmp_path, "while True:\n    pass\n")
    start = time.perf_counter()
    assert "did not return within 0.2 s" in own(tmp_path).problem
    assert time.perf_counter() - start < 3


def test_what_is_saved_between_two_looks_is_seen(tmp_path):
    for value in (1, 2):  # in the same second, and of the same size
        write(tmp_path, f"def linear(x, weight, bias):\n    return {value}, None\n")
        assert own(tmp_path).functions[0](0, 0, 0) == (value, None)


def test_a_file_has_a_module_of_its_own(tmp_path):
    write(
        tmp_path,
        "from dataclasses import dataclass\n\n\n@dataclass\nclass Cache:\n    x: 'int'\n\n\n"
        "def linear(x, weight, bias):\n    return x, Cache(x)\n",
    )
    _, cache = own(tmp_path).functions[0](1, 2, 3)
    assert type(cache).__module__ == "own_120_linear"


def test_changes_are_those_of_files_that_were_saved(tmp_path, monkeypatch):
    start(tmp_path)
    before = states(tmp_path)
    changed = [
        lambda: write(tmp_path, LINEAR),
        lambda: None,
        lambda: (tmp_path / "130_softmax.py").unlink(),
        lambda: write(tmp_path, "x = 1", "130_softmax"),
        lambda: os.utime(tmp_path / "120_linear.py", ns=(1, 1)),
    ]
    monkeypatch.setattr(workspace, "sleep", lambda seconds: changed.pop(0)())
    found = list(islice(workspace.changes(tmp_path, before), 4))
    assert found == [["120_linear"], ["130_softmax"], ["130_softmax"], ["120_linear"]]


def test_of_two_functions_of_one_name_the_last_counts(tmp_path):
    start(tmp_path)
    stubs = (tmp_path / file_of("120_linear")).read_text(encoding="utf-8")
    write(tmp_path, stubs + LINEAR)
    forward, backward = own(tmp_path).functions
    assert forward is not None and backward is None
    write(tmp_path, LINEAR + stubs)
    assert own(tmp_path).functions == (None, None)
