import tomllib

import pytest
import run_generated_mutants
from helpers.texts import ROOT, read

LINEAR = "ops/linear.py: y = x.reshape(-2, x.shape[-1]) @ weight"
DIFF = """\
# transformer_core.ops.linear.x_linear__mutmut_34: survived
--- transformer_core/ops/linear.py
+++ transformer_core/ops/linear.py
@@ -1,2 +1,2 @@
     check_shape("x", x, ..., "D")
-    y = x.reshape(-1, x.shape[-1]) @ weight
+    y = x.reshape(-2, x.shape[-1]) @ weight
"""


@pytest.fixture
def mutmut(monkeypatch):
    """Stand in for mutmut, which the tests do not need: one mutant of the first two survives."""
    verdicts = ["    linear_1: survived", "    linear_2: timeout", "    add_3: not checked"]
    answers = {"run": None, "results": "\n".join(verdicts), "show": DIFF}
    asked = []

    def answer(command, *arguments, capture_output=False):
        asked.append((command, *arguments))
        return answers[command]

    monkeypatch.setattr(run_generated_mutants, "mutmut", answer)
    monkeypatch.setattr(run_generated_mutants, "equivalent", lambda: {LINEAR})
    return asked


def test_a_mutant_is_known_by_its_file_and_its_line():
    assert run_generated_mutants.key(DIFF) == LINEAR


def test_survivors_that_are_listed_are_no_failure(capsys, mutmut):
    assert run_generated_mutants.main(["--workers", "1"]) == 0
    assert mutmut == [("run", "--max-children", "1"), ("results",), ("show", "linear_1")]
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
        file, _, line = mutant.partition(": ")
        assert line and (ROOT / "transformer_core" / file).is_file()
