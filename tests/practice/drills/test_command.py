"""``practice drill``, asked on a terminal or through a pipe."""

import argparse
import io

import pytest

from transformer_practice.drills import DRILLS, command, draw
from transformer_practice.drills.exact import show

SEED = 7


@pytest.fixture
def practice(monkeypatch, capsys):
    """Run the command with lines on its standard input; return its status and what it says."""

    def run(*arguments, lines=()):
        parser = argparse.ArgumentParser()
        command.add_parser(parser.add_subparsers(required=True))
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{n}\n" for n in lines)))
        options = parser.parse_args(["drill", *map(str, arguments)])
        return options.run(options), capsys.readouterr().out

    return run


def answers(name, level, seed=SEED):
    task = draw(name, seed)
    return [show(task.steps[n].answer) for n in task.to_fill(level)]


def test_without_a_name_it_lists_the_names_with_their_chapters(practice):
    status, said = practice()
    assert status == 0
    assert [line.split()[0] for line in said.splitlines()] == list(DRILLS)
    assert all(draw(name, 0).chapter in said for name in DRILLS)


@pytest.mark.parametrize("name", DRILLS)
def test_right_answers_through_a_pipe_end_well(practice, name):
    for level in ("complete", "free"):
        lines = answers(name, level)
        status, said = practice(name, "--seed", SEED, "--level", level, lines=lines)
        assert status == 0
        assert said.count("Right.") == len(lines)
        assert "Every step is right." in said


def test_the_worked_task_shows_every_answer_and_rule_and_asks_nothing(practice):
    status, said = practice("layer_norm", "--seed", SEED, "--level", "worked")
    assert status == 0
    for step in draw("layer_norm", SEED).steps:
        assert show(step.answer) in said
        assert step.rule in said


def test_the_first_wrong_step_is_named_with_the_rule_that_it_breaks(practice):
    steps = draw("layer_norm", SEED).steps
    lines = [show(step.answer) for step in steps]
    mistake = "γ was applied after the means; it belongs inside them."
    lines.insert(6, show(steps[6].slips[mistake]))
    lines.insert(8, show(steps[7].answer * 2))
    status, said = practice("layer_norm", "--seed", SEED, "--level", "free", lines=lines)
    assert status == 1
    words = " ".join(said.split())
    assert f"Wrong. {mistake} {steps[6].rule}" in words
    assert "Wrong. This is 2 times the right answer." in words
    assert said.rstrip().endswith("First wrong step: 7.")


def test_another_form_is_not_a_wrong_step(practice):
    lines = ["one, two", *answers("dropout", "free")]
    status, said = practice("dropout", "--seed", SEED, "--level", "free", lines=lines)
    assert status == 0
    assert "answer: expected 4 numbers, as in 1, 2, 3, 4, got 'one, two'" in said


def test_an_empty_line_gives_the_answer_away(practice):
    lines = answers("dropout", "free")
    lines[1] = ""
    status, said = practice("dropout", "--seed", SEED, "--level", "free", lines=lines)
    assert status == 1
    assert draw("dropout", SEED).steps[1].rule in said
    assert "First wrong step: 2." in said


def test_the_end_of_the_input_ends_the_session(practice):
    status, said = practice("softmax", "--seed", SEED, "--level", "free")
    assert status == 1
    assert "First wrong step: 1." in said


def test_without_a_level_there_is_one_task_of_each_each_of_its_own(practice):
    lines = answers("linear", "complete", SEED + 1) + answers("linear", "free", SEED + 2)
    status, said = practice("linear", "--seed", SEED, lines=lines)
    assert status == 0
    for n, level in enumerate(("worked", "complete", "free")):
        assert f"A linear layer: {level}, seed {SEED + n}" in said


def test_without_a_seed_the_task_is_a_new_one(practice):
    said = {practice("linear", "--level", "worked")[1] for _ in range(5)}
    assert len(said) > 1


def test_a_closed_input_is_an_error_in_one_line(monkeypatch, practice):
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers(required=True))
    options = parser.parse_args(["drill", "softmax", "--level", "free"])
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(ValueError, match="standard input: expected an open one"):
        options.run(options)


def test_an_unknown_name_is_refused(practice):
    with pytest.raises(SystemExit):
        practice("layernorm")
