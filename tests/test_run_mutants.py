import re

import pytest
import run_mutants

from transformer_core.practice.catalogue import MUTANTS, NO_MISTAKE, PLANTABLE

SOFTMAX = ("tests/ops/test_softmax.py",)


@pytest.mark.slow
def test_a_mistake_is_killed_and_a_mutant_that_does_nothing_survives(
    capsys, monkeypatch
):
    monkeypatch.setitem(MUTANTS, NO_MISTAKE.name, NO_MISTAKE)
    assert run_mutants.main([NO_MISTAKE.name, "softmax-no-coupling"], SOFTMAX) == 1
    _, nothing, mistake, killed, fresh = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"no-mistake +\d+ s  survives", nothing)
    assert re.fullmatch(
        r"softmax-no-coupling +\d+ s  tests/ops/test_softmax.py::test_\w+", mistake
    )
    assert killed == "killed 1 of 2"
    assert fresh == "a check of new models kills 1 of 2"


def test_a_text_that_is_no_longer_found_is_named(capsys, monkeypatch):
    stale = MUTANTS["softmax-row-sum"]._replace(edits={"no such text": ""})
    monkeypatch.setitem(PLANTABLE, stale.name, stale)
    assert run_mutants.main([], SOFTMAX) == 1
    assert capsys.readouterr().out == (
        "softmax-row-sum: expected this text once in ops/softmax.py, "
        "found it 0 times: no such text\n"
    )


@pytest.mark.slow
def test_verdicts_of_tests_that_fail_anyway_are_not_given(capsys, monkeypatch):
    monkeypatch.setattr(run_mutants, "NO_MISTAKE", MUTANTS["softmax-no-coupling"])
    assert run_mutants.main(["softmax-row-sum"], SOFTMAX) == 1
    assert capsys.readouterr().out.splitlines()[2:] == [
        "the tests fail without a mistake: the verdicts tell nothing"
    ]


def test_tests_that_cannot_run_are_no_verdict():
    with pytest.raises(RuntimeError, match="pytest could not run"):
        run_mutants.first_failing_test(NO_MISTAKE.name, "tests/no_such_file.py")


def test_an_unknown_name_is_an_error(capsys):
    with pytest.raises(SystemExit):
        run_mutants.main(["no-such-mutant"], SOFTMAX)
    assert "got no-such-mutant" in capsys.readouterr().err
