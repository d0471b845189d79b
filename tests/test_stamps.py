"""What is stored holds, and the stamps tell when it does not."""

import json
from importlib.metadata import version

import ledger
import nbformat
import outputs
import pytest
import stamps
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from texts import ROOT, read

NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
PAGE, RELU = "notebooks/relu.ipynb", "transformer_core/ops/relu.py"
HOUSE = {
    "requirements.txt": f"numpy=={version('numpy')}\nscipy==1.0  # via nothing\n",
    "tests/parity/requirements.txt": "torch==2.0\n",
    "tests/mutants/__init__.py": 'FILE = "ops/gelu.py"\n',
    "transformer_core/__init__.py": "",
    "transformer_core/ops/__init__.py": (
        "from transformer_core.ops.gelu import gelu\n"
        "from transformer_core.ops.relu import relu\n"
    ),
    "transformer_core/ops/gelu.py": "from scipy import special\n\ngelu = special.erf\n",
    RELU: (
        "def relu(x):\n"
        '    """Return max(x, 0)."""\n'
        "    import numpy as np\n\n"
        '    return np.maximum(x, 0, out=None, casting="same_kind")\n'
    ),
    "transformer_core/commands/train.py": "import torch\n",
    "data/names.json": "[]\n",
}


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A small repository: a notebook, the op it calls, and what it does not need."""
    monkeypatch.delenv("EXECUTE", raising=False)
    for name, text in HOUSE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    write_page(
        tmp_path, "from transformer_core.ops import relu", "'../data/names.json'"
    )
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


def store(root):
    """Stamp the page as if its outputs had been computed now."""
    notebook = json.loads(read(root / PAGE))
    notebook["metadata"]["executed"] = {
        **stamps.executed_now(stamps.stamp(root, root / PAGE)),
        "outputs": outputs.fingerprint_of_outputs(notebook),
    }
    (root / PAGE).write_text(json.dumps(notebook))


def edit(root, name, right, wrong):
    text = read(root / name)
    assert right in text
    (root / name).write_text(text.replace(right, wrong))


# What is stored in this repository


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_stored_outputs_of_a_notebook_hold(path):
    why = outputs.reason(ROOT, path)
    name = path.relative_to(ROOT).as_posix()
    assert not why, f"{name}: {why}. make notebooks NOTEBOOKS={name}"


def test_the_stored_errors_of_the_ledger_hold():
    why = ledger.reason(ROOT, "NumPy", ledger.read_store(ROOT)["NumPy"])
    assert not why, f"{ledger.STORE}: {why}. make ledger"


# What a stamp knows


def test_a_stamp_names_what_is_needed_and_nothing_else(house):
    stamp = stamps.stamp(house, house / PAGE)
    assert set(stamp["files"]) == {PAGE, RELU, "data/names.json"}
    assert stamp["packages"] == {"numpy": version("numpy")}


def test_whoever_imports_the_mistakes_needs_the_files_in_which_they_are_made(house):
    write_page(house, "from mutants import FILE")
    stamp = stamps.stamp(house, house / PAGE)
    assert set(stamp["files"]) == {
        PAGE,
        "tests/mutants/__init__.py",
        "transformer_core/ops/gelu.py",
    }
    assert stamp["packages"] == {"scipy": "1.0"}


def test_an_import_by_a_call_counts(house):
    write_page(house, "import pytest; torch = pytest.importorskip('torch')")
    assert stamps.stamp(house, house / PAGE)["packages"] == {"torch": "2.0"}


def test_a_folder_that_does_not_count_is_left_out(house):
    write_page(house, "from mutants import FILE")
    stamp = stamps.stamp(house, house / PAGE, without=house / "tests" / "mutants")
    assert set(stamp["files"]) == {PAGE}


def test_an_import_that_is_not_absolute_is_refused(house):
    edit(house, RELU, "import numpy as np", "from . import gelu")
    with pytest.raises(ValueError, match="expected absolute imports"):
        stamps.stamp(house, house / PAGE)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        (RELU, "max(x, 0).", "the larger of x and 0."),
        (RELU, "import numpy as np", "import numpy as np  # only here"),
        (RELU, "np.maximum(x, 0, ", "np.maximum(\n        x, 0,\n        "),
        (RELU, '"same_kind"', "'same_kind'"),
        ("transformer_core/ops/gelu.py", "special.erf", "special.erfc"),
        ("transformer_core/ops/__init__.py", "import gelu", "import gelu as g"),
        ("transformer_core/commands/train.py", "torch", "math"),
        ("requirements.txt", "scipy==1.0", "scipy==1.1"),
        (PAGE, '"tags": []', '"tags": ["remove-cell"]'),
        (PAGE, '"source": []', '"source": ["Now with prose."]'),
    ],
)
def test_what_changes_no_output_leaves_the_stored_ones_good(house, name, right, wrong):
    store(house)
    edit(house, name, right, wrong)
    assert outputs.reason(house, house / PAGE) == ""


@pytest.mark.parametrize(
    ("name", "right", "wrong", "why"),
    [
        (RELU, "x, 0, ", "x, 1, ", f"{RELU} changed"),
        ("data/names.json", "[]", "[1]", "data/names.json changed"),
        ("requirements.txt", "numpy==", "numpy==0.", "numpy changed"),
        (PAGE, "names.json'", "names.json' ", "its cells changed"),
        (PAGE, '"tags": []', '"tags": ["raises-exception"]', "its cells changed"),
        (PAGE, r'"0\n"', r'"7\n"', "its outputs were changed"),
    ],
)
def test_what_changes_an_output_is_named(house, name, right, wrong, why):
    store(house)
    edit(house, name, right, wrong)
    assert outputs.reason(house, house / PAGE) == why


def test_of_many_changes_the_first_are_named():
    before, now = (dict.fromkeys(["a.py", "b.py", "c.py", "d.py"], i) for i in "01")
    executed = {"stamp": {"files": before, "packages": {}}}
    why = stamps.changes(executed, {"files": now, "packages": {}})
    assert why == "a.py, b.py, c.py and 1 more changed"


def test_a_notebook_without_a_stamp_was_never_executed(house):
    assert outputs.reason(house, house / PAGE) == "it was never executed"


def test_everything_is_made_anew_where_it_is_asked_for(house, monkeypatch):
    store(house)
    monkeypatch.setenv("EXECUTE", "all")
    assert outputs.reason(house, house / PAGE) == "EXECUTE=all"
    monkeypatch.setenv("EXECUTE", "some")
    with pytest.raises(ValueError, match="expected EXECUTE=all or nothing, got .*some"):
        outputs.reason(house, house / PAGE)


# What the build takes and makes


def refuse(*_):
    pytest.fail("executed, though the outputs are there")


def test_stored_outputs_that_hold_are_taken_as_they_are(house, monkeypatch):
    store(house)
    monkeypatch.setattr(outputs, "execute", refuse)
    _, *cells, last = outputs.with_outputs(house, house / PAGE)["cells"]
    assert [cell["outputs"][0]["text"] for cell in cells] == [["0\n"], ["1\n"]]
    assert last["source"].startswith("*Outputs computed with Python 3.")
    assert f", numpy {version('numpy')} on " in last["source"]
    assert last["source"].endswith(", and stored with the sources.*")


def test_others_are_made_once_and_stand_between_the_prose_of_now(house, monkeypatch):
    write_page(house, "print(6 * 7)")
    outputs.with_outputs(house, house / PAGE)
    monkeypatch.setattr(outputs, "execute", refuse)
    write_page(house, "print(6 * 7)", prose="Six times seven:")
    prose, code, last = outputs.with_outputs(house, house / PAGE)["cells"]
    assert prose["source"] == ["Six times seven:"]
    assert code["outputs"][0]["text"] == ["42\n"]
    assert last["source"].endswith(", when this book was built.*")


def test_what_is_executed_and_stored_holds(house):
    write_page(house, "import sys; print(1); sys.stdout.flush(); print(2)")
    text = outputs.execute(house, house / PAGE, "it was named", print)
    (house / PAGE).write_text(text)
    assert outputs.reason(house, house / PAGE) == ""
    assert nbformat.writes(nbformat.reads(text, as_version=4)) + "\n" == text


def test_a_cell_that_fails_stops_the_build(house):
    write_page(house, "1 / 0")
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        outputs.with_outputs(house, house / PAGE)
