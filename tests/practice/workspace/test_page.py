"""A workspace in parts, as the book's pages have it: examined, packed, unpacked; listings run."""

import inspect
import json
from base64 import b64decode, b64encode
from io import BytesIO
from zipfile import ZipFile

import pytest

from transformer_core import layers, ops, optim
from transformer_practice.__main__ import main
from transformer_practice.engine import repair
from transformer_practice.exercises import every_exercise, find_exercise
from transformer_practice.workspace import examined, page
from transformer_practice.workspace.folder import chapters, text_of
from transformer_practice.workspace.parts import joined, part_of, split, starter

FORWARD = """
def linear(x, weight, bias):
    return x @ weight + bias, (x, weight)
"""
BACKWARD = """
def rows_of(x):
    return x.reshape(-1, x.shape[-1])


def linear_backward(dy, cache):
    x, weight = cache
    return dy @ weight.T, rows_of(x).T @ rows_of(dy), rows_of(dy).sum(axis=0)
"""
RIGHT = part_of(FORWARD + BACKWARD)
WRONG = RIGHT.replace(".sum(axis=0)", ".mean(axis=0)")


@pytest.fixture(autouse=True)
def without_processes(monkeypatch):
    monkeypatch.setattr(examined, "PROCESSES", False)


@pytest.fixture(autouse=True)
def without_own_lines(monkeypatch):
    monkeypatch.setattr(repair, "CHANGES", 0)


def ask(function, *given, progress=None, **answers):
    kept = json.dumps({"answers": answers, "progress": progress or {}})
    return json.loads(function(*given, kept))


def run(code, path="", place=""):
    return json.loads(page.run(code, path, place))


@pytest.mark.parametrize("chapter", chapters())
def test_the_parts_from_which_a_reader_starts_make_the_file_of_the_workspace(chapter):
    assert joined(chapter, {}) == text_of(chapter)
    assert split(chapter, text_of(chapter)) == {}


def test_parts_come_back_from_their_file_with_what_belongs_to_them():
    layer = starter(find_exercise("Linear")).replace("raise NotImplementedError", "return 1")
    parts = {"linear": RIGHT, "Linear": layer}
    assert split("120_linear", joined("120_linear", parts)) == parts


def test_a_file_in_another_order_and_with_more_imports_is_split_and_joined():
    text = f'"""Mine."""\nimport math\nimport numpy as np\n\n{BACKWARD}\n{FORWARD}'
    (name,) = parts = split("120_linear", text)
    assert name == "linear"
    assert all(line in parts[name] for line in text.splitlines()[1:])
    assert split("120_linear", joined("120_linear", parts)) == parts


def test_a_file_that_is_not_python_is_refused():
    with pytest.raises(ValueError, match=r"120_linear\.py: expected Python, got: .*line 1"):
        split("120_linear", "def linear(:")


def test_a_wrong_answer_is_named_and_remembered():
    found = ask(page.examine, "linear", linear=WRONG)
    assert found["state"] == "wrong"
    assert "dbias is wrong, dx and dweight are right" in found["html"]
    assert "<details><summary>Errors at each point" in found["html"]
    assert "hint FOLDER" not in found["html"]
    (mistake,) = found["progress"]["linear"]["mistakes"]
    again = ask(page.examine, "linear", linear=RIGHT, progress=found["progress"])
    assert again["state"] == again["progress"]["linear"]["state"] == "right"
    assert again["progress"]["linear"]["mistakes"] == [mistake]


def test_it_is_the_report_of_the_workspace(tmp_path, capsys):
    (tmp_path / "120_linear.py").write_text(WRONG)
    main(["check", str(tmp_path), "linear", "--json"])
    (report,) = json.loads(capsys.readouterr().out)
    found = ask(page.examine, "linear", linear=WRONG)
    assert report["verdict"] in found["html"]
    assert found["progress"] == json.loads((tmp_path / "progress.json").read_text())


@pytest.mark.parametrize(
    "code, said",
    [
        ("import numpy as np\n\ndef linear(x:\n", "does not run: line 3:"),
        (starter(find_exercise("linear")), "linear: not written yet"),
        (RIGHT.replace("x @ weight +", "x * weight +"), "line 5: return x * weight + bias"),
        (RIGHT.replace("    return x @", "    print('so')\n    return x @"), "Printed:<br>so"),
    ],
)
def test_lines_are_those_of_the_editor_and_prints_are_shown(code, said):
    assert said in ask(page.examine, "linear", linear=code)["html"]


def test_a_part_may_call_what_another_part_of_the_chapter_has_and_none_breaks_another():
    three = starter(find_exercise("three_linear"))
    (name,) = {each.name for each in chapters()["120_linear"]} - {"linear", "Linear"}
    called = three.replace("raise NotImplementedError", "return linear(1, 2, 3)", 1)
    said = ask(page.examine, name, **{name: called, "linear": RIGHT, "Linear": "def ("})["html"]
    assert "return x @ weight + bias" in said and "NameError" not in said


def test_hints_are_given_one_after_the_other_as_in_the_workspace():
    hints, progress = find_exercise("linear").hints, {}
    for number, hint in enumerate(hints, start=1):
        found = ask(page.hint, "linear", progress=progress)
        progress = found["progress"]
        assert f"linear, hint {number} of {len(hints)}: {hint[:9]}" in found["html"]
    assert "there are no more hints" in ask(page.hint, "linear", progress=progress)["html"]


def test_the_ledger_has_what_was_written():
    found = ask(page.make_ledger, linear=RIGHT)
    assert f"1 of {len(every_exercise())} are yours" in found["page"]
    assert found["progress"]["linear"]["state"] == "right"


def test_a_packed_workspace_is_one_for_the_commands_and_comes_back(tmp_path, capsys):
    progress = ask(page.hint, "linear")["progress"]
    packed = b64decode(ask(page.pack, linear=RIGHT, progress=progress)["zip"])
    with ZipFile(BytesIO(packed)) as archive:
        archive.extractall(tmp_path)
    assert main(["check", str(tmp_path / "mine"), "linear"]) == 0
    assert "linear: right." in capsys.readouterr().out
    assert main(["start", str(tmp_path / "mine")]) == 0
    assert "wrote" not in capsys.readouterr().out
    back = json.loads(page.unpack("mine.zip", b64encode(packed).decode()))
    assert back == {"answers": {"linear": RIGHT}, "progress": progress}


def test_one_file_of_a_workspace_is_opened_too_and_anything_else_refused(tmp_path):
    content = b64encode(joined("120_linear", {"linear": RIGHT}).encode()).decode()
    for name in ("120_linear.py", "120_linear (1).py"):
        assert json.loads(page.unpack(name, content))["answers"] == {"linear": RIGHT}
    with pytest.raises(ValueError, match="notes.py: expected a workspace in a ZIP file"):
        page.unpack("notes.py", content)


def source(function, *change):
    return inspect.getsource(inspect.unwrap(function)).replace(*change or ("", ""))


@pytest.mark.parametrize(
    "function, place, change, said",
    [
        (ops.linear_backward, "linear_backward", (), "linear_backward: right"),
        (ops.linear_backward, "linear_backward", (".sum(", ".mean("), "dbias is wrong"),
        (layers.LayerNorm, "layernorm", (), "LayerNorm.backward: right"),
        (optim.AdamW.update, "adamw.update", (), "AdamW.update: right"),
    ],
)
def test_a_listing_of_the_package_runs_in_its_file_and_is_examined(function, place, change, said):
    path = f"{inspect.getmodule(function).__name__.replace('.', '/')}.py"
    code = inspect.cleandoc("\n" + source(function, *change))
    assert said in run(code, path, f"listing-{path[:-3].replace('/', '-')}-{place}")["html"]


@pytest.mark.parametrize(
    "code, printed",
    [
        ("x = np.ones(2)\nprint(x)\nx.sum()", "[1. 1.]\n2.0"),
        ("def f(): pass", "Defined: f."),
        ("x = 1", "It printed nothing."),
        ("x = 1\nx / 0", 'File "<listing>", line 2, in <module>\n    x / 0'),
        ("x = (", "SyntaxError: '(' was never closed"),
        ("exit()", "SystemExit"),
        ("check_backward(layer_norm, layer_norm_backward, x=(2, 5), gamma=(5,), beta=(5,))", ""),
    ],
)
def test_any_listing_runs_and_shows_what_it_prints(code, printed):
    found = run(code)
    assert printed in found["printed"]
    assert "Error" in printed or "line" in printed or "Error" not in found["printed"]


def test_a_function_of_a_solution_is_examined():
    assert "linear: right. linear_backward: right." in run(RIGHT)["html"]
