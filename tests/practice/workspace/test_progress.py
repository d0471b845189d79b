"""What is remembered of a workspace, and what is said of it in a line and on a page."""

import json
import re
from dataclasses import replace
from datetime import date

import pytest

from transformer_practice.engine.answer import Answer
from transformer_practice.exercises import find_exercise
from transformer_practice.workspace import progress as module
from transformer_practice.workspace.examined import OPEN, RIGHT, WRONG, Examined, examine_answer
from transformer_practice.workspace.folder import Own
from transformer_practice.workspace.ledger import ledger
from transformer_practice.workspace.progress import NEW, Progress


def linear(x, weight, bias):
    return x @ weight + bias, (x, weight)


def backward(sum_of):
    def linear_backward(dy, cache):
        x, weight = cache
        rows = dy.reshape(-1, dy.shape[-1])
        return dy @ weight.T, x.reshape(-1, x.shape[-1]).T @ rows, sum_of(rows)

    return linear_backward


def alone(dy, cache):
    return backward(summed)(dy, cache[:2])


def summed(rows):
    return rows.sum(axis=0)


def averaged(rows):
    return rows.mean(axis=0)


def halved(rows):
    return rows.sum(axis=0) + rows[0] ** 2


def later(dy, cache):
    if dy.size:
        raise NotImplementedError


def examined(*functions, **about):
    exercise = find_exercise("linear")
    return examine_answer(Own(exercise, functions, **about), Answer(exercise, *functions))


NOTHING, FORWARD = examined(None, None), examined(linear, None)
FINISHED, AVERAGED = (examined(linear, backward(summed)), examined(linear, backward(averaged)))
BACKWARD, BROKEN = examined(None, alone), examined(None, None, problem="line 3: no")


@pytest.mark.parametrize(
    "each, state, line",
    [
        (NOTHING, OPEN, "not written yet"),
        (FORWARD, OPEN, "linear: right. linear_backward: not written yet."),
        (FINISHED, RIGHT, "right"),
        (BACKWARD, RIGHT, "right, with the package's forward pass"),
        (AVERAGED, WRONG, "wrong: linear_backward: dbias is wrong, dx and dweight are right."),
        (BROKEN, WRONG, "wrong: line 3: no"),
        (
            examined(lambda x, weight, bias: (1 / 0, None), backward(summed)),
            WRONG,
            "wrong: linear: raises ZeroDivisionError: division by zero.",
        ),
        (examined(linear, later), OPEN, "linear: right. linear_backward: not written yet."),
        (
            examined(None, None, absent=("linear_backward",)),
            OPEN,
            "not written yet (the file has no linear_backward)",
        ),
        (
            examined(None, alone, absent=("linear",)),
            RIGHT,
            "right, with the package's forward pass (the file has no linear)",
        ),
    ],
)
def test_a_state_and_a_line(each, state, line):
    assert each.state == state
    assert each.line == line


def test_mistakes_that_come_to_the_same_are_all_remembered(tmp_path):
    report = replace(AVERAGED.report, mistakes=("linear-bias-averaged", "relu-in-place"))
    progress = Progress(tmp_path)
    progress.note(AVERAGED._replace(report=report))
    ((_, said),) = progress.of("linear")["mistakes"]
    assert said == "linear-bias-averaged, relu-in-place"
    page = ledger({"120_linear": [AVERAGED]}, progress)
    assert "one of these, or several: " in page
    assert "(linear-bias-averaged); " in page and "(relu-in-place)" in page


@pytest.fixture
def days(monkeypatch):
    """Days that go by, one at a time."""

    class Days(date):
        day_now = 1

        @classmethod
        def today(cls):
            return cls(2026, 11, cls.day_now)

    monkeypatch.setattr(module, "date", Days)
    return Days


def test_the_way_to_a_right_answer_is_remembered(tmp_path, days):
    way = [NOTHING, FORWARD, AVERAGED, AVERAGED, examined(linear, backward(halved))]
    way += [AVERAGED, FINISHED, FINISHED]
    for day, each in enumerate(way, start=1):
        days.day_now = day
        progress = Progress(tmp_path)
        progress.note(each)
        progress.save()
    entry = Progress(tmp_path).entries["linear"]
    assert entry["state"] == RIGHT
    assert entry["right"] == "2026-11-07"
    assert [(day[-2:], said) for day, said in entry["mistakes"]] == [
        ("03", "linear-bias-averaged"),
        ("05", "linear_backward: dbias is wrong, dx and dweight are right."),
        ("06", "linear-bias-averaged"),
    ]
    assert entry["errors"].keys() == {"y", "dx", "dweight", "dbias"}
    assert all(error < 1e-12 for row in entry["errors"].values() for error in row.values())
    assert Progress(tmp_path).right() == {"linear"}


def test_what_was_right_and_is_no_more_keeps_its_day(tmp_path, days):
    progress = Progress(tmp_path)
    progress.note(FINISHED)
    days.day_now = 2
    progress.note(AVERAGED)
    assert progress.of("linear")["right"] == "2026-11-01"
    assert progress.right() == set()


def test_nothing_new_is_not_written(tmp_path):
    progress = Progress(tmp_path)
    progress.note(NOTHING)
    assert not progress.save()
    assert not (tmp_path / "progress.json").exists()
    progress.note(FINISHED)
    assert progress.save()
    assert not progress.save()
    again = Progress(tmp_path)
    again.note(FINISHED)
    assert not again.save()


def test_what_is_not_known_is_kept(tmp_path):
    entries = {"of_another_version": NEW | {"state": RIGHT}, "linear": NEW | {"mine": 1}}
    (tmp_path / "progress.json").write_text(json.dumps(entries))
    progress = Progress(tmp_path)
    progress.note(FINISHED)
    progress.save()
    kept = json.loads((tmp_path / "progress.json").read_text())
    assert kept["of_another_version"] == entries["of_another_version"]
    assert kept["linear"]["mine"] == 1
    assert NEW["errors"] == {} and NEW["mistakes"] == []


@pytest.mark.parametrize(
    "content, message",
    [
        ("{", "expected whole JSON"),
        ("[]", "expected a JSON object"),
        ('{"linear": 3}', "linear: expected a JSON object"),
        ('{"linear": {}}', "linear: state: expected a value such as '', got None"),
        (json.dumps({"linear": NEW | {"hints": "2"}}), "hints: expected .* 0, got '2'"),
        (json.dumps({"linear": NEW | {"hints": -1}}), "hints: expected .*, got -1"),
        (json.dumps({"linear": NEW | {"mistakes": ["x"]}}), "mistakes: expected pairs"),
        (json.dumps({"linear": NEW | {"errors": {"y": 1}}}), "errors: expected"),
    ],
)
def test_a_file_that_was_changed_by_hand_is_named_and_kept(tmp_path, content, message):
    path = tmp_path / "progress.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: .*{message}"):
        Progress(tmp_path)
    assert path.read_text() == content


def test_the_ledger_says_what_is_written_and_how_it_came_about(tmp_path):
    progress = Progress(tmp_path)
    for each in (AVERAGED, FINISHED):
        progress.note(each)
    progress.of("linear")["hints"] = 2
    other = Examined(Own(find_exercise("softmax"), (None, None)))
    page = ledger({"120_linear": [FINISHED], "130_softmax": [other]}, progress)
    for text in (
        "linear_backward: equation (3.2)",
        "1 of 2 are yours",
        "Not written yet: softmax.",
        "Chapter 4, Softmax <small>0 of 1 are yours</small>",
        "Right for the first time on",
        "the bias gets the mean of the cotangents",
        "(linear-bias-averaged)",
        "Hints: 2 of 3.",
        "generic, other sizes",
        "prefers-color-scheme: dark",
        "@media print",
    ):
        assert text in page
    assert not re.search(r"(src|href)=|@import|url\(", page)  # it needs no other file
    for tag in ("section", "table", "p", "ol", "h2", "body"):
        assert len(re.findall(f"<{tag}[ >]", page)) == page.count(f"</{tag}>")


def test_what_a_reader_has_written_is_no_markup_on_the_ledger(tmp_path):
    progress = Progress(tmp_path)
    each = examined(None, None, problem="line 3: <b>&")
    progress.of("linear")["mistakes"].append(["<i>", "<b>"])
    progress.of("linear")["right"] = "<i>"
    page = ledger({"120_linear": [each]}, progress)
    assert "<b>" not in page and "<i>" not in page
    assert "&lt;b&gt;&amp;" in page
