import csv
import json
import re
import sys
from pathlib import Path
from shutil import copytree
from xml.etree import ElementTree

import numpy as np
import pytest

from studies import shipped
from transformer_practice.cases import Museum, museum
from transformer_practice.cases.exhibits import PUBLISHED, ROOMS, SHIPPED, SUSPECTS, suspects
from transformer_practice.cases.museum import lines
from transformer_practice.cases.trainings import Trained, trained
from transformer_practice.mistakes import MUTANTS


@pytest.fixture(scope="module")
def untrained():
    """Let every training come to the same curve, at once."""
    losses = np.linspace(1, 0.5, 20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(museum, "trained", lambda task: Trained(losses, None))
        yield


@pytest.fixture(scope="module")
def furnished(untrained, tmp_path_factory):
    return Museum(tmp_path_factory.mktemp("furnished"), seed=3).folder


@pytest.fixture
def here(furnished, tmp_path):
    return Museum(copytree(furnished, tmp_path / "museum"))


def case_of(here, name):
    """The number of a case with a mistake, which is hung up if it is not there."""
    names = [exhibit.name for exhibit in here.exhibits]
    if name not in names:
        (room,) = (room for room in ROOMS if name in [e.name for e in room])
        (case,) = (i for i, e in enumerate(here.exhibits) if e in room)
        (here.exhibits[case],) = (e for e in room if e.name == name)
        return case + 1
    return names.index(name) + 1


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_twelve_cases_are_drawn_one_of_each_room(here):
    assert len(here.exhibits) == 12
    assert all(len({*room} & {*here.exhibits}) == 1 for room in ROOMS)


def test_six_that_projects_have_published_are_drawn_instead(untrained, tmp_path):
    here = Museum(tmp_path, 3, shipped=True)
    assert len(here.exhibits) == len(SHIPPED) == 6
    assert all(len({*room} & {*here.exhibits}) == 1 for room in SHIPPED)
    assert Museum(tmp_path).exhibits == here.exhibits
    assert "rotary-layout-ignored" in here.suspects() and "layer-norm" not in here.suspects()
    assert "grouped_attention" in (tmp_path / "case-01" / "questions.md").read_text()
    with pytest.raises(ValueError, match="expected a suspect"):
        here.name(1, "layer-norm-gamma-outside")
    assert any(PUBLISHED[e.name].threads for e in here.exhibits)
    assert all(here.threads(e) == PUBLISHED[e.name].threads for e in here.exhibits)


@pytest.mark.thorough
def test_a_trail_says_where_a_mistake_was_reported(untrained, tmp_path):
    here = Museum(tmp_path, 3, shipped=True)
    (first, *_) = here.exhibits
    threads = PUBLISHED[first.name].threads
    trail = here.name(1, first.name)
    assert all(f"Reported: https://github.com/{thread}" in trail for thread in threads)


def test_what_was_published_is_in_the_catalogue_or_in_the_study_and_has_its_threads():
    kinds = {(setting, name) for setting, names in shipped.KINDS.items() for name in names}
    for name, exhibit in PUBLISHED.items():
        assert name in MUTANTS or name == shipped.CLIPPED
        assert (exhibit.setting, name) in kinds
        for thread in exhibit.threads:
            assert re.fullmatch(r"[\w.-]+/[\w.-]+/(issues|pull)/\d+", thread)
    assert set(suspects(SHIPPED)) <= set(PUBLISHED)
    assert {name for _, name in kinds if name} == set(PUBLISHED)


@pytest.mark.slow
def test_a_seed_draws_the_same_files_and_another_one_others(untrained, tmp_path):
    one, same, other = (
        contents(Museum(tmp_path / name, seed).folder)
        for name, seed in (("one", 1), ("same", 1), ("other", 2))
    )
    assert list(one.values()) == list(same.values()) != list(other.values())


def test_no_name_of_a_mistake_stands_in_the_folder(here):
    here.ask(1, "generic")
    text = b"".join(contents(here.folder).values()).decode()
    names = [str(path.relative_to(here.folder)) for path in contents(here.folder)]
    for name in MUTANTS:
        assert name not in text and name not in names
    for exhibit in here.exhibits:
        assert MUTANTS[exhibit.name].mistake not in text


def test_a_case_is_plain_files(here):
    place = here.folder / "case-07"
    names = {path.name for path in place.iterdir()}
    assert names == {"answers.json", "curve.csv", "curve.svg", "questions.md"}
    rows = list(csv.reader((place / "curve.csv").open()))
    assert rows[:2] == [["step", "this run", "the right one"], ["1", "1", "1"]]
    assert len(rows) == 21
    drawing = ElementTree.parse(place / "curve.svg").getroot()
    title, *_, grey, blue = [element for element in drawing if element.tag[-4:] != "text"]
    assert title.text == "Loss from 1 to 0.5; the right one from 1 to 0.5"
    assert len(blue.get("points").split()) == len(grey.get("points").split()) == 20
    questions = (place / "questions.md").read_text()
    assert "| op NAME | 2 |" in questions and "ResidualWithDropout" in questions


def test_every_file_that_is_written_is_said(untrained, tmp_path):
    said = []
    here = Museum(tmp_path, 3, said.append)
    assert sorted(said) == sorted(f"wrote {path}" for path in contents(tmp_path))
    said.clear()
    here.ask(2, "schedule")
    assert said == [f"wrote {tmp_path / 'case-02' / 'answers.json'}"]


def test_a_museum_goes_on_where_it_was_and_nothing_is_written_over(here):
    here.ask(5, "schedule")
    (here.folder / "case-05" / "notes.md").write_text("mine")
    before = contents(here.folder)
    said = []
    again = Museum(here.folder, say=said.append)
    assert contents(here.folder) == before and said == []
    assert again.exhibits == here.exhibits
    (here.folder / "case-09" / "answers.json").unlink()
    Museum(here.folder, say=said.append)
    assert {Path(line).parent.name for line in said} == {"case-09"}


@pytest.mark.parametrize("module", ["safetensors", "tqdm"])
def test_what_is_not_installed_is_missed_before_there_is_a_folder(
    untrained, tmp_path, monkeypatch, module
):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError):
        Museum(tmp_path / "museum", 3)
    assert not (tmp_path / "museum").exists()


def test_a_folder_of_something_else_is_left_alone(untrained, tmp_path):
    (tmp_path / "thesis.md").write_text("mine")
    with pytest.raises(ValueError, match="expected a new or empty folder"):
        Museum(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.md"]


def test_a_museum_of_another_seed_or_version_is_an_error(here):
    with pytest.raises(ValueError, match="seed: expected that of the folder, 3, got 4"):
        Museum(here.folder, seed=4)
    path = here.folder / "museum.json"
    plan = json.loads(path.read_text())
    path.write_text(json.dumps(plan | {"names": plan["names"][::-1]}))
    with pytest.raises(ValueError, match="expected a museum of this version"):
        Museum(here.folder)
    path.write_text("[]")
    with pytest.raises(ValueError, match="expected a museum of this version"):
        Museum(here.folder)


@pytest.mark.slow
def test_a_case_by_its_questions_to_its_name_and_trail(here):
    case = case_of(here, "layer-norm-gamma-outside")
    assert here.ask(case, "fresh").splitlines() == [
        f"case {case}, fresh (1 of your points, 9 left)",
        "  as in the right one, 1 of 1: new models",
    ]
    answer = here.ask(case, "op  layer_norm")
    assert "(2 of your points, 7 left)" in answer and "right at gamma = 1" in answer
    assert "asked before" in here.ask(case, "op layer_norm")
    assert here.name(case, "layer-norm-no-mean-term") == (
        f"case {case}: it is not layer-norm-no-mean-term, though the file is right. 4 points left"
    )
    assert "named right: 0 of 12" in here.score()
    trail = here.name(case, "layer-norm-gamma-outside")
    assert "-     g = dy * gamma\n+     g, inv_std = dy.copy(), inv_std * gamma\n" in trail
    assert "fresh (1): as in the right one\n" in trail
    assert "op layer_norm (2): differs\n" in trail
    assert "4 of 10 points left" in trail
    assert "This would have been enough: op layer_norm (2)" in trail
    assert "fresh nothing, generic an alarm, theorems an alarm" in trail
    assert (here.folder / f"case-{case:02}" / "trail.txt").read_text() == trail
    assert here.score() == "named right: 1 of 12; points left in these: 4 of 10"
    assert f"{case:5}" in here.state() and "4, named" in here.state()
    with pytest.raises(ValueError, match="case: expected an open one"):
        here.ask(case, "norms")
    with pytest.raises(ValueError, match="case: expected an open one"):
        here.name(case, "layer-norm-gamma-outside")


@pytest.mark.slow
def test_the_line_will_do_for_the_name(here):
    case = case_of(here, "linear-bias-averaged")
    ((line,),) = lines(MUTANTS["linear-bias-averaged"])
    assert "though the file is right" in here.name(case, f"ops/linear.py:{line - 1}")
    trail = here.name(case, f"transformer_core/ops/linear.py:{line}")
    assert f"ops/linear.py, line {line}" in trail and "7 of 10 points left" in trail


@pytest.mark.slow
def test_three_wrong_names_and_a_question_close_a_case(here):
    case = case_of(here, "checkpoint-step-count-lost")
    here.ask(case, "schedule")
    for left in (6, 3, 0):
        answer = here.name(case, "softmax-row-sum")
        assert answer == f"case {case}: it is not softmax-row-sum. {left} points left"
    with pytest.raises(ValueError, match="expected one of at most 0 points, got 2"):
        here.ask(case, "generic")
    with pytest.raises(ValueError, match="expected a case that is closed"):
        here.trail(case)
    assert "not solved" in here.name(case, "softmax-row-sum")
    assert "checkpoint-step-count-lost" in here.trail(case)
    assert "not solved" in here.state() and "named right: 0 of 12" in here.score()


def test_nothing_is_asked_or_named_by_an_ellipsis(here):
    before = contents(here.folder)
    assert here.ask(1, ...) == "case 1: not asked yet"
    assert here.name(1, ...) == "case 1: not named yet"
    assert contents(here.folder) == before


@pytest.mark.parametrize(
    "answer", ["gamma", "gelu-gate-constant", "ops/linear.py:x", "ops/no.py:3"]
)
def test_what_is_no_name_costs_nothing(here, answer):
    with pytest.raises(ValueError, match="expected"):
        here.name(1, answer)
    assert json.loads((here.folder / "case-01" / "answers.json").read_text()) == {
        "asked": [],
        "named": [],
    }


@pytest.mark.parametrize("case", [0, 13, -1])
def test_there_is_no_other_case(here, case):
    with pytest.raises(ValueError, match=f"case: expected 1 to 12, got {case}"):
        here.ask(case, "fresh")


def test_every_suspect_is_listed_with_what_it_is(here):
    listed = here.suspects()
    assert all(f"  {m.name}: {m.mistake}" in listed for m in SUSPECTS.values())


def test_every_mistake_has_lines():
    for mutant in SUSPECTS.values():
        assert all(len(span) >= 1 for span in lines(mutant))


@pytest.mark.slow
def test_a_museum_of_real_trainings(tmp_path, monkeypatch):
    """A fifth of each; the notebook of blind cases shows whole ones."""
    monkeypatch.setattr(museum, "trained", lambda task: trained(task, 60, 30))
    here = Museum(tmp_path, seed=0)
    ends = {
        exhibit.name: [losses[-10:].mean() for losses in here.losses(case)]
        for case, exhibit in enumerate(here.exhibits, start=1)
    }
    assert all(np.isfinite(pair).all() for pair in ends.values())
    assert len({f"{end:.6g}" for end, _ in ends.values()}) == 12
