import argparse

import numpy as np
import pytest

from transformer_practice.cases import command, museum
from transformer_practice.cases.trainings import Trained


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command line; return its exit status and its lines."""
    losses = np.linspace(1, 0.5, 20)
    monkeypatch.setattr(museum, "trained", lambda task: Trained(losses, None))
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers(required=True))

    def run(*words):
        options = parser.parse_args([str(word) for word in words])
        status = options.run(options) or 0
        return status, capsys.readouterr().out.splitlines()

    return run


def test_a_session_in_the_museum(run, tmp_path):
    folder = tmp_path / "museum"
    status, lines = run("museum", folder, "--seed", 3)
    assert status == 0 and lines[0] == f"wrote {folder / 'museum.json'}"
    assert lines[-3] == "named right: 0 of 12"
    assert lines[-2] == f"next: transformer-practice museum {folder} ask 1 fresh"
    wrote, *answer = run("museum", folder, "ask", 4, "op", "softmax")[1]
    assert wrote == f"wrote {folder / 'case-04' / 'answers.json'}"
    assert answer[0] == "case 4, op softmax (2 of your points, 8 left)"
    assert run("museum", folder, "name", 4, "relu-passes-everything")[1][-1] == (
        "case 4: it is not relu-passes-everything. 5 points left"
    )
    suspects = run("museum", folder, "suspects")[1]
    assert "ops/softmax.py" in suspects
    assert run("museum", folder, "score")[1] == lines[-3:-2]
    assert len(run("museum", folder)[1]) == 16
    with pytest.raises(ValueError, match="expected a case that is closed"):
        run("museum", folder, "trail", 4)


CHECK = """
import numpy as np

def check(forward, backward):
    y, cache = forward(np.array([[1.0, 2.0, 3.0]]))
    dx = backward(np.array([[1.0, 0.0, 0.0]]), cache)
    {body}
"""


def test_survivors_of_a_file(run, tmp_path):
    file = tmp_path / "checks.py"
    file.write_text(CHECK.format(body="return abs(dx.sum()) < 1e-12"))
    status, lines = run("survivors", file, "softmax")
    assert status == 1 and lines[0].startswith("softmax: your check kills ")
    assert "  killed    softmax-no-coupling" in lines
    file.write_text(CHECK.format(body="return dx.sum() > 1"))
    assert run("survivors", file, "softmax") == (
        1,
        ["softmax: not a test: it rejects the right function: it returns False"],
    )


@pytest.mark.parametrize("text", ["checks = 1", "def check(:", "1 / 0"])
def test_a_file_without_a_check_is_an_error(run, tmp_path, text):
    file = tmp_path / "checks.py"
    file.write_text(text)
    with pytest.raises(ValueError, match="expected a function check"):
        run("survivors", file, "softmax")


def test_a_file_that_is_not_there_is_an_error(run, tmp_path):
    with pytest.raises(OSError):
        run("survivors", tmp_path / "no.py", "softmax")
