from contextlib import nullcontext

import numpy as np
import pytest

from transformer_practice.cases.exhibits import ROOMS, SHIPPED, SUSPECTS, suspects
from transformer_practice.cases.questions import (
    OPS,
    OPS_OF_A_GPT,
    QUESTIONS,
    ask,
    differing,
    price,
    right_answer,
)
from transformer_practice.cases.trainings import TASKS, trained
from transformer_practice.engine.planting import planted

EXHIBITS = [exhibit for room in ROOMS + SHIPPED for exhibit in room]
EVERY_SUSPECT = SUSPECTS | suspects(SHIPPED)
ALONE = [question for question in QUESTIONS if question != "op"]


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("question", [q for q in ALONE if q != "write"])
def test_the_right_package_is_like_the_right_one(question, task):
    rows = ask(question, task, nullcontext)
    assert rows and not differing(rows)


@pytest.mark.parametrize("name", OPS + OPS_OF_A_GPT)
def test_so_is_every_op_of_it(name):
    rows = ask(f"op {name}", "same", nullcontext)
    assert rows and not differing(rows)


@pytest.mark.slow
@pytest.mark.parametrize("rooms", [ROOMS, SHIPPED], ids=["of the course", "shipped"])
def test_each_mistake_has_a_question_whose_answer_no_other_suspect_gives(rooms):
    asked = {exhibit: question_of(exhibit) for room in rooms for exhibit in room}
    for question in set(asked.values()):
        right_answer(*question)  # before a mistake is planted
    answers = {}
    for name, mistake in suspects(rooms).items():
        with planted(mistake):
            answers |= {(q, name): ask(*q, nullcontext) for q in set(asked.values())}
    for exhibit, question in asked.items():
        rows = answers[question, exhibit.name]
        assert differing(rows), exhibit
        twins = [name for name in suspects(rooms) if answers[question, name] == rows]
        assert twins == [exhibit.name], exhibit


def question_of(exhibit):
    """The question that tells a mistake, and its task; ops know of no task."""
    return exhibit.key, "same" if exhibit.key.startswith("op ") else exhibit.task


@pytest.mark.slow
@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda exhibit: f"{exhibit.task}-{exhibit.name}")
def test_each_mistake_trains_and_its_losses_are_not_the_right_ones(exhibit):
    right = trained(exhibit.task, 12, stop=6).losses
    with planted(EVERY_SUSPECT[exhibit.name]):
        losses = trained(exhibit.task, 12, stop=6).losses
    assert np.isfinite(losses).all()
    assert not np.array_equal(losses, right)


def test_a_training_comes_to_the_same_each_time_and_stopped_or_not():
    once, again, straight = (trained("same", 6, stop).losses for stop in (3, 3, 6))
    assert np.array_equal(once, again) and np.array_equal(once, straight)


def test_the_rooms_are_twelve_and_no_mistake_is_in_two():
    assert len(ROOMS) == 12 and all(len(room) >= 2 for room in ROOMS)
    assert len(EVERY_SUSPECT) >= len(SUSPECTS) == sum(map(len, ROOMS))


def test_the_special_points_at_which_an_op_is_right_are_told():
    mistake = SUSPECTS["layer-norm-gamma-outside"]
    rows = ask("op layer_norm", "previous", lambda: planted(mistake))
    assert list(differing(rows)) == ["dx"]
    seen, right = rows["dx"]
    assert "at generic" in seen and "; right at gamma = 1" in seen and right == "right"


def test_an_error_is_an_answer():
    refuses = SUSPECTS["linear-bias-averaged"]._replace(
        edits={"dy_rows = ": "raise ValueError('no')\n    dy_rows = "}
    )
    rows = ask("norms", "same", lambda: planted(refuses))
    assert rows == {"an error": ["no", "none"]}


@pytest.mark.parametrize(
    "question, message",
    [
        ("", "question: expected one of fresh, norms"),
        ("name", "question: expected one of fresh, norms"),
        ("op", "question: expected op and one of linear, "),
        ("op gelu", "question: expected op and one of linear, "),
        ("fresh air", "question: expected fresh alone, got fresh air"),
    ],
)
def test_what_cannot_be_asked_is_an_error(question, message):
    with pytest.raises(ValueError, match=message):
        price(question)


@pytest.mark.slow
def test_a_trained_model_that_saw_the_future_writes_nothing_right():
    mistake = SUSPECTS["decoder-sees-the-future"]
    rows = ask("write", "reversal", lambda: planted(mistake))
    (alone, right), (led, _) = rows.values()
    assert int(right.partition("%")[0]) > 80 > 20 > int(alone.partition("%")[0])
    assert int(led.partition("%")[0]) > 80
