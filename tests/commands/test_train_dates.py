import json
import re

import pytest

from transformer_core import __version__
from transformer_core.__main__ import main
from transformer_core.optim import Adam
from transformer_core.tasks.dates import Dates, load, recipe
from transformer_core.tasks.dates.reader import DateReader
from transformer_core.training import Run

OPTIONS = {"--out", "--steps", "--learning-rate", "--seed", "--resume"} | {
    "--zero-stage",
    "--tensor-parallel",
}


def train(folder, *options):
    return main(["train", "dates", "--out", str(folder), *options])


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Small batches, a checkpoint every 3 of them, and a small test."""
    monkeypatch.setitem(recipe.DEFAULTS, "batch", 4)
    monkeypatch.setitem(recipe.DEFAULTS, "checkpoint_every", 3)
    monkeypatch.setattr(recipe, "UNSEEN", 200)


def test_a_run_is_on_disk_with_all_that_reading_needs(tmp_path, capsys):
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
def test_the_printed_shares_are_of_unseen_dates(tmp_path, capsys, monkeypatch):
    asked = []

    def read(reader, texts):
        asked.extend(texts)
        return ["1998-03-05"] * len(texts)

    monkeypatch.setattr(DateReader, "read", read)
    assert train(tmp_path, "--steps", "1") == 0
    assert re.search(r"by the model +\d\.\d\d%", capsys.readouterr().out)
    assert len(asked) == 200


@pytest.mark.slow
def test_an_interrupted_run_resumed_equals_an_uninterrupted_one_bit_by_bit(
    tmp_path, monkeypatch, capsys
):
    whole, halved = tmp_path / "whole", tmp_path / "halved"
    assert train(whole, "--steps", "7") == 0
    step = Adam.step

    def interrupted(optimizer, grads, max_norm):
        if optimizer.steps == 5:
            raise KeyboardInterrupt
        step(optimizer, grads, max_norm)

    with monkeypatch.context() as patch:
        patch.setattr(Adam, "step", interrupted)
        assert train(halved, "--steps", "7") == 130
    assert (
        capsys.readouterr().err == f"stopped; {halved} holds step 3, from which --resume goes on\n"
    )
    assert train(halved, "--resume") == 0
    assert files(halved) == files(whole)


@pytest.mark.slow
def test_another_seed_gives_another_run(tmp_path):
    for folder, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        assert train(tmp_path / folder, "--steps", "2", "--seed", seed) == 0
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert Run(tmp_path / "a").history() != Run(tmp_path / "c").history()


@pytest.mark.slow
def test_a_run_of_another_babel_is_not_resumed(tmp_path, capsys):
    assert train(tmp_path, "--steps", "1") == 0
    path = tmp_path / "settings.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps(settings | {"characters": "abc"}))
    before = files(tmp_path)
    assert train(tmp_path, "--resume") == 1
    assert re.search("error: .*babel", capsys.readouterr().err)
    assert files(tmp_path) == before


def test_a_run_of_another_model_is_not_resumed(tmp_path, capsys):
    main(["train", "encoder", "--out", str(tmp_path), "--epochs", "1"])
    assert train(tmp_path, "--resume") == 1
    assert "expected a run of 'train dates', got" in capsys.readouterr().err


def test_bad_options_are_one_line_and_leave_no_folder(tmp_path, capsys):
    assert train(tmp_path / "run", "--steps", "0") == 1
    assert capsys.readouterr().err == "error: steps: expected a whole number of at least 1, got 0\n"
    assert not (tmp_path / "run").exists()


def test_help_names_every_option(capsys):
    with pytest.raises(SystemExit):
        main(["train", "dates", "--help"])
    text = capsys.readouterr().out
    assert set(re.findall(r"^  (--[a-z-]+)", text, re.MULTILINE)) == OPTIONS
