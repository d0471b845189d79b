import re

import pytest

from transformer_core import __version__
from transformer_core.tasks.dates import Dates, load, recipe
from transformer_core.tasks.dates.reader import DateReader
from transformer_core.training import Run


@pytest.fixture
def model():
    return "dates"


@pytest.mark.slow
def test_a_run_is_on_disk_with_all_that_reading_needs(tmp_path, train, capsys):
    assert train(tmp_path, "--steps", "4") == 0
    printed = capsys.readouterr().out
    assert re.fullmatch(
        r"unseen dates read right by the model +\d+\.\d\d%\n"
        r"unseen dates read right by regular expressions +\d+\.\d\d%\n"
        f"saved in {tmp_path}\n",
        printed,
    )
    run, dates = Run(tmp_path), Dates()
    settings = run.settings()
    assert settings == recipe.DEFAULTS | {
        "model": "dates",
        "version": __version__,
        "steps": 4,
        "characters": dates.source.characters,
        "longest": dates.longest,
    }
    assert [record["step"] for record in run.history()] == [1, 2, 3, 4]
    assert len(load(tmp_path).read(["jeudi 5 mars 1998", "5. März 1998"])) == 2


@pytest.mark.slow
def test_the_printed_shares_are_of_unseen_dates(tmp_path, train, capsys, monkeypatch):
    asked = []

    def read(reader, texts):
        asked.extend(texts)
        return ["1998-03-05"] * len(texts)

    monkeypatch.setattr(DateReader, "read", read)
    assert train(tmp_path, "--steps", "1") == 0
    assert re.search(r"by the model +\d\.\d\d%", capsys.readouterr().out)
    assert len(asked) == recipe.UNSEEN


@pytest.mark.slow
def test_a_run_of_another_babel_is_not_resumed(tmp_path, train, files, capsys, monkeypatch):
    assert train(tmp_path, "--steps", "1") == 0
    before = files(tmp_path)
    monkeypatch.setattr(recipe, "vocabulary", lambda data: {"characters": "abc"})
    assert train(tmp_path, "--resume") == 1
    assert "settings: expected the dates of the babel that" in capsys.readouterr().err
    assert files(tmp_path) == before
