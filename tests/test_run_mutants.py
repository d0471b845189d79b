import re
import subprocess
import sys

import pytest
import run_mutants
from helpers.share import chosen
from helpers.texts import ROOT

from transformer_practice.mistakes import MUTANTS, NO_MISTAKE, PLANTABLE

SOFTMAX = "tests/ops/test_softmax.py"


def run(*names, tests=SOFTMAX):
    """Run the script in a process of its own; return its code and what it prints of verdicts."""
    script = [sys.executable, "tests/run_mutants.py", *names, "--workers", "1", "--tests", tests]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines()


@pytest.mark.slow
def test_a_mistake_is_killed_and_a_mutant_that_does_nothing_survives():
    code, lines = run(NO_MISTAKE.name, "softmax-no-coupling")
    assert code == 1
    assert re.fullmatch(r"no-mistake +[\d.]+ s  survives", lines[0])
    assert re.fullmatch(rf"softmax-no-coupling +[\d.]+ s  {SOFTMAX}::test_\w+.*", lines[1])
    assert lines[-1] == "killed 1 of 2"


@pytest.mark.slow
@pytest.mark.parametrize(
    "test, message",
    [
        ("def test_fails():\n    assert False\n", ".*test_fails: fails without a mistake, .*"),
        ("import no_such_module\n", "the tests could not be collected"),
    ],
)
def test_tests_that_fail_anyway_are_no_verdict(test, message, tmp_path):
    (tmp_path / "test_anyway.py").write_text(test)
    code, lines = run("softmax-row-sum", tests=str(tmp_path))
    assert code == 1
    assert re.fullmatch(message, lines[-1])


def test_tests_that_end_without_a_verdict_are_an_error(monkeypatch):
    judge = run_mutants.Run([], 1)
    monkeypatch.setattr(judge, "run_in_a_fork", lambda *job: run_mutants.os._exit(1))
    with pytest.raises(RuntimeError, match="no-mistake: the tests ended with .* before a verdict"):
        list(judge.judge([(NO_MISTAKE.name, [])]))


def test_the_nearest_tests_are_asked_first():
    class Item:
        def __init__(self, nodeid):
            self.nodeid = nodeid

        def get_closest_marker(self, name):
            return name if "slow" in self.nodeid else None

    asked = [f"tests/{name}" for name in (
        "models/test_bert.py::test_b", "ops/test_softmax.py::test_b",
        "ops/test_softmax.py::test_slow", "ops/test_relu.py::test_b",
        "layers/test_linear.py::test_b",
    )]  # fmt: skip
    judge = run_mutants.Run([], 1)
    judge.items = [Item(nodeid) for nodeid in sorted(asked)]
    mutant = MUTANTS["softmax-no-coupling"]
    killer, others = judge.nearest_first(mutant, asked[0])
    found = [item.nodeid for item in [*killer, *others]]
    assert found == asked


def test_a_text_that_is_no_longer_found_is_named(capsys, monkeypatch):
    stale = MUTANTS["softmax-row-sum"]._replace(edits={"no such text": ""})
    monkeypatch.setitem(PLANTABLE, stale.name, stale)
    assert run_mutants.main([stale.name]) == 1
    assert capsys.readouterr().out == (
        "softmax-row-sum: expected this text once in ops/softmax.py, "
        "found it 0 times: no such text\n"
    )


def test_an_unknown_name_is_an_error(capsys):
    with pytest.raises(SystemExit):
        run_mutants.main(["no-such-mutant"])
    assert "got no-such-mutant" in capsys.readouterr().err


def test_every_mistake_is_in_one_of_the_shares(monkeypatch):
    shares = []
    for part in (1, 2, 3):
        monkeypatch.setenv("SHARE", f"{part}/3")
        shares.append(chosen(MUTANTS))
    assert sorted(sum(shares, [])) == sorted(MUTANTS)
    assert min(map(len, shares)) > len(MUTANTS) / 4
    monkeypatch.delenv("SHARE")
    assert chosen(MUTANTS) == [*MUTANTS]


@pytest.mark.parametrize("share", ["0/3", "4/3", "third", "1/3/3"])
def test_a_share_that_is_none_is_an_error(monkeypatch, share):
    monkeypatch.setenv("SHARE", share)
    with pytest.raises(ValueError, match=f"expected SHARE to be like 1/3.* got '{share}'"):
        chosen(MUTANTS)
