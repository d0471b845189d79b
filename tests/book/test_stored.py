"""What is stored is taken while it holds, made where it does not, and always the same."""

import json
from importlib.metadata import version
from runpy import run_path

import ledger
import nbformat
import outputs
import pytest
from helpers.texts import ROOT
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from stored import computed_with, read_json, write_json

PAGE = "notebooks/page.ipynb"
Text = run_path(str(ROOT / "notebooks/conftest.py"))["Text"]


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A small repository with one notebook, stored as if it had been executed."""
    monkeypatch.delenv("EXECUTE", raising=False)
    write_page(tmp_path, "print(0)", "print(1)")
    notebook = json.loads((tmp_path / PAGE).read_text())
    executed = computed_with("numpy") | {"cells": outputs.fingerprint_of_cells(notebook)}
    write_json(tmp_path / "notebooks/executed.json", {"page": executed})
    return tmp_path


def write_page(root, *sources, prose="", tags=()):
    cells = [new_markdown_cell(prose, id="prose")]
    for i, source in enumerate(sources):
        shown = [new_output("stream", text=f"{i}\n")]
        cell = new_code_cell(source, id=f"c{i}", outputs=shown, execution_count=i + 1)
        cell.metadata["tags"] = list(tags)
        cells.append(cell)
    (root / "notebooks").mkdir(exist_ok=True)
    nbformat.write(new_notebook(cells=cells), root / PAGE)


def refuse(*_):
    pytest.fail("executed, though the outputs are there")


# Notebooks


def test_stored_outputs_are_taken_while_the_cells_are_the_same(house, monkeypatch):
    monkeypatch.setattr(outputs, "execute", refuse)
    write_page(house, "print(0)", "print(1)", prose="Now with prose.", tags=["remove-cell"])
    _, *cells, last = outputs.with_outputs(house, house / PAGE)["cells"]
    assert [cell["outputs"][0]["text"] for cell in cells] == [["0\n"], ["1\n"]]
    assert last["source"].startswith("*Outputs computed with Python 3.")
    assert f", numpy {version('numpy')} on " in last["source"]


def test_others_are_made_once_and_stand_between_the_prose_of_now(house, monkeypatch):
    write_page(house, "print(6 * 7)")
    outputs.with_outputs(house, house / PAGE)
    monkeypatch.setattr(outputs, "execute", refuse)
    write_page(house, "print(6 * 7)", prose="Six times seven:")
    prose, code, last = outputs.with_outputs(house, house / PAGE)["cells"]
    assert prose["source"] == ["Six times seven:"]
    assert code["outputs"][0]["text"] == ["42\n"]


@pytest.mark.parametrize(
    ("sources", "tags"),
    [
        (["print(0)", "print(1) "], []),
        (["print(0)", "print(1)"], ["raises-exception"]),
        (["print(0)", "print(1)"], ["starter"]),
    ],
)
def test_what_changes_an_output_is_named(house, sources, tags):
    write_page(house, *sources, tags=tags)
    notebook = json.loads((house / PAGE).read_text())
    executed = read_json(house / "notebooks/executed.json")["page"]
    assert outputs.reason(notebook, executed) == "its cells changed"
    assert outputs.reason(notebook, None) == "it was never executed"


def test_everything_is_made_anew_where_it_is_asked_for(house, monkeypatch):
    monkeypatch.setenv("EXECUTE", "all")
    assert outputs.reason({}, {}) == "EXECUTE=all"
    monkeypatch.setenv("EXECUTE", "some")
    with pytest.raises(ValueError, match="expected EXECUTE=all or nothing, got .*some"):
        outputs.reason({}, {})


@pytest.mark.slow
def test_to_execute_twice_gives_the_same_bytes(house):
    write_page(
        house,
        "import sys; print(1); sys.stdout.flush(); print(2)",
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "import matplotlib.pyplot as plt\nfrom book import plots\nfrom myst_nb import glue\n"
        "plots.use_style(); fig, ax = plt.subplots(); ax.plot([1, 2]); glue('line', fig)",
    )
    stored = []
    for folder in ("one", "other"):
        outputs.execute(house / PAGE, house / folder)
        stored += [[path.read_bytes() for path in sorted((house / folder).iterdir())]]
    assert stored[0] == stored[1] and len(stored[0]) == 2
    text = stored[0][1].decode()
    assert "<svg" in text and nbformat.writes(nbformat.reads(text, as_version=4)) + "\n" == text


@pytest.mark.thorough
def test_a_cell_that_fails_stops_the_build(house):
    write_page(house, "1 / 0")
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        outputs.with_outputs(house, house / PAGE)


@pytest.mark.parametrize(
    ("text", "stored", "same"),
    [
        ("loss 0.125 of 3\n", "loss  0.1251 of 3", True),
        ("loss 0.125", "loss 0.135", False),
        ("loss 0.125", "error 0.125", False),
        ("1 2 3", "1 2", False),
        ("error 2.2e-16", "error 0.0", True),
        ("error 3e-11", "error 1e-11", True),
        ("error 3e-11", "error 1e-09", False),
        ("error 3e-11", "error 1e-05", False),
        ("step -1", "step 1", False),
        ("<svg>1</svg>", "<svg>2</svg>", True),
        ("<svg>1</svg>", "", False),
    ],
)
def test_outputs_are_compared_to_rounding(text, stored, same):
    assert (Text(text) == Text(stored)) == same == (not Text(text) != Text(stored))


# The ledger


def test_a_ledger_holds_while_tests_and_the_size_of_errors_are_the_same():
    def checks(tests=("a", "b"), **errors):
        return {"eq:a-backward": {"tests": list(tests), "errors": errors}}

    stored = checks(pytorch=2e-10, sympy=0.0)
    assert not list(ledger.differences(stored, checks(pytorch=1e-9, sympy=1e-16)))
    for other in (checks(pytorch=2e-10), checks(pytorch=3e-9, sympy=0.0), {}):
        assert list(ledger.differences(stored, other))
    (said,) = ledger.differences(stored, checks("a", pytorch=2e-10, sympy=0.0))
    assert said == "eq:a-backward: expected ['a', 'b'], got ['a']"


def test_the_tests_that_the_ledger_names_exist():
    for group in read_json(ROOT / ledger.STORE).values():
        for check in group["checks"].values():
            for test in check["tests"]:
                file, _, name = test.partition("::")
                assert f"def {name}(" in (ROOT / file).read_text("utf-8"), "make ledger"


def test_a_row_of_the_ledger_names_its_equation_and_shows_its_own_errors():
    assert ledger.title("eq:layer-norm-backward-parameters") == "layer norm, parameters"
    assert ledger.title("eq:linear-backward") == "linear"
    shown = ledger.witnesses({"sympy": 0.0, "pytorch": 2e-16})
    assert shown == "SymPy: exact<br>PyTorch [2e-16]{.pasted-text}"
