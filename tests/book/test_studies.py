"""What `make studies` has stored is what its studies ask for."""

import json
import subprocess
import sys
from importlib import import_module
from shutil import copy

import pytest
from helpers.texts import ROOT

import studies
from studies.__main__ import NAMES, key

# In seconds, and rounding does not decide the end.
QUICK = ("bet", "local_steps", "optimizers", "residual")


@pytest.mark.parametrize("name", NAMES)
def test_every_run_of_a_study_is_stored(name):
    wanted = [key(settings) for settings in import_module(f"studies.{name}").runs()]
    assert [key(run["settings"]) for run in studies.results(name)] == wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_run_of_a_quick_study_comes_out_as_it_is_stored(name):
    first = studies.results(name)[0]
    found = import_module(f"studies.{name}").run(**first["settings"])
    assert json.loads(json.dumps(found)) == approx(first["found"])


def approx(stored):
    """What is equal to numbers in lists and dictionaries, to rounding in a training."""
    if isinstance(stored, dict):
        return {key: approx(value) for key, value in stored.items()}
    if isinstance(stored, list):
        return [approx(value) for value in stored]
    return pytest.approx(stored, rel=1e-3, nan_ok=True) if isinstance(stored, float) else stored


def test_results_that_are_not_there_are_an_error():
    with pytest.raises(ValueError, match="expected stored results of nothing"):
        studies.results("nothing")


DOUBLE = """
def runs():
    yield from ({"x": 1}, {"x": 2})

def run(x):
    with open(__file__ + ".log", "a") as log:
        log.write(str(x))
    return {"twice": 2 * x}
"""


@pytest.mark.slow
def test_a_study_runs_what_is_missing_and_stores_each_run(tmp_path, monkeypatch):
    for name in ("studies/__init__.py", "studies/__main__.py", "book/_ext/stored.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, tmp_path / name)
    module, log = tmp_path / "studies/double.py", tmp_path / "studies/double.py.log"
    path = tmp_path / "studies/results/double.json"

    def make_studies():
        command = [sys.executable, "-m", "studies", "double", "--workers", "1"]
        subprocess.run(command, cwd=tmp_path, check=True)
        return json.loads(path.read_text())["runs"]

    module.write_text(DOUBLE)
    runs = make_studies()
    assert runs == [{"settings": {"x": x}, "found": {"twice": 2 * x}} for x in (1, 2)]
    assert make_studies() == runs and log.read_text() == "12"

    stored = json.loads(path.read_text())
    path.write_text(json.dumps(stored | {"runs": runs[1:]}))
    assert make_studies() == runs and log.read_text() == "121"

    monkeypatch.setenv("EXECUTE", "all")
    assert make_studies() == runs and log.read_text() == "12112"

    module.write_text(DOUBLE.replace("2 * x", "1 / 0 if x == 1 else 2 * x"))
    with pytest.raises(subprocess.CalledProcessError):
        make_studies()
