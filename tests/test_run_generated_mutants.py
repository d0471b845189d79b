import tomllib

import pytest
import run_generated_mutants
from helpers.texts import ROOT, imported, read

LINEAR = "ops/linear.py, linear: y = x.reshape(-2, x.shape[-1]) @ weight"
MODULE = """\
def x_linear__mutmut_orig(x, weight):
    y = x.reshape(-1, x.shape[-1]) @ weight  # as one matrix
    return y

def x_linear__mutmut_2(x, weight):
    y = (
        x.reshape(-2, x.shape[-1])
        @ weight
    )
    return y

class SGD:
    def xǁSGDǁ__init____mutmut_orig(self, momentum=0): pass
    def xǁSGDǁ__init____mutmut_1(self, momentum=1): pass
"""


@pytest.fixture
def mutmut(monkeypatch, tmp_path):
    """Stand in for mutmut, which the tests do not need: one of three mutants survives."""
    ops = "transformer_core.ops."
    verdicts = [f"    {ops}linear.x_linear__mutmut_2: survived"]
    verdicts += ["    linear_3: timeout", "    add_3: not checked"]
    mutants = tmp_path / "mutants"
    asked = []

    def answer(command, *arguments, capture_output=False):
        asked.append((command, *arguments))
        if command == "results":
            return "\n".join(verdicts)
        room = mutants / "transformer_core/ops"
        room.mkdir(parents=True)
        (room / "linear.py").write_text(MODULE, encoding="utf-8")

    monkeypatch.setattr(run_generated_mutants, "MUTANTS", mutants)
    monkeypatch.setattr(run_generated_mutants, "mutmut", answer)
    monkeypatch.setattr(run_generated_mutants, "equivalent", lambda: {LINEAR})
    return asked


def test_a_mutant_is_known_by_its_file_its_function_and_its_statement(mutmut):
    run_generated_mutants.mutmut("run")
    module = "transformer_core.ops.linear"
    assert run_generated_mutants.key(f"{module}.x_linear__mutmut_2") == LINEAR
    method = "ops/linear.py, SGD.__init__: def __init__(self, momentum=1):"
    assert run_generated_mutants.key(f"{module}.xǁSGDǁ__init____mutmut_1") == method


def test_survivors_that_are_listed_are_no_failure(capsys, mutmut):
    assert run_generated_mutants.main(["--workers", "1"]) == 0
    assert mutmut == [("run", "--max-children", "1"), ("results",)]
    assert capsys.readouterr().out == "1 survive that are equivalent\n"


@pytest.mark.parametrize("names", [[], ["transformer_core.ops.linear*"]])
def test_a_new_survivor_is_a_failure(capsys, mutmut, monkeypatch, names):
    monkeypatch.setattr(run_generated_mutants, "equivalent", set)
    assert run_generated_mutants.main(names) == 1
    assert f"survives: {LINEAR}\n" in capsys.readouterr().out


def test_a_mutant_that_is_listed_and_killed_is_a_failure_unless_it_was_left_out(
    capsys, mutmut, monkeypatch
):
    monkeypatch.setattr(run_generated_mutants, "equivalent", lambda: {LINEAR, "other"})
    assert run_generated_mutants.main([]) == 1
    assert "no longer made: other\n" in capsys.readouterr().out
    assert run_generated_mutants.main(["transformer_core.ops.linear*"]) == 0


def test_every_entry_of_the_list_has_its_reason_and_an_existing_file():
    entries = tomllib.loads(read(run_generated_mutants.EQUIVALENT))["equivalent"]
    mutants = [mutant for entry in entries for mutant in entry["mutants"]]
    assert len(mutants) == len(set(mutants))
    for entry in entries:
        assert entry.keys() == {"reason", "mutants"} and len(entry["reason"]) > 20
    for mutant in mutants:
        file, _, rest = mutant.partition(", ")
        assert ": " in rest and (ROOT / "transformer_core" / file).is_file()


def test_what_the_tests_of_mutants_import_is_copied_to_them():
    settings = tomllib.loads(read(ROOT / "pyproject.toml"))["tool"]["mutmut"]
    chosen = map(ROOT.joinpath, settings["pytest_add_cli_args_test_selection"])
    files = [file for path in chosen for file in ([path] if path.is_file() else path.rglob("*.py"))]
    files += [ROOT / "tests/conftest.py", *(ROOT / "tests/helpers").glob("*.py")]
    ours = {name for name in imported("\n".join(map(read, files))) if (ROOT / name).is_dir()}
    assert ours - {*settings["source_paths"], *settings["also_copy"]} == set()
