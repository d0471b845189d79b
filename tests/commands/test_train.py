"""``transformer-core train``: what holds for every model."""

import re

import numpy as np
import pytest
from helpers.small_trainings import OPTIONS, cut, edit

from transformer_core.__main__ import main
from transformer_core.foundation.files import to_safetensors
from transformer_core.tasks import bert, dates, gpt, reconstruction, search
from transformer_core.training import Run

every_model = pytest.mark.parametrize(
    "model", ["encoder", "bert", "gpt", "search", pytest.param("dates", marks=pytest.mark.slow)]
)
TASKS = {"encoder": reconstruction, "dates": dates, "bert": bert, "gpt": gpt, "search": search}


@pytest.mark.slow
@every_model
def test_an_interrupted_run_resumed_equals_an_uninterrupted_one_bit_by_bit(
    model, tmp_path, train, uninterrupted, ctrl_c, files, capsys
):
    folder = tmp_path / "interrupted"
    with ctrl_c(8):
        assert train(folder, *OPTIONS[model]) == 130
    assert capsys.readouterr().err == (
        f"stopped; {folder} holds step 5; --resume continues from there\n"
    )
    assert len(Run(folder).history()) == 8
    assert train(folder, "--resume") == 0
    assert files(folder) == files(uninterrupted)


@every_model
def test_a_finished_run_resumed_prints_the_same_and_changes_nothing(
    model, uninterrupted, train, whole, files, capsys
):
    folder, printed = whole(model)
    before = files(uninterrupted)
    assert train(uninterrupted, "--resume") == 0
    assert capsys.readouterr().out == printed.replace(str(folder), str(uninterrupted))
    assert files(uninterrupted) == before


@pytest.mark.slow
@every_model
def test_the_same_seed_gives_the_same_run_and_another_another(model, tmp_path, train, files):
    for folder, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        assert train(tmp_path / folder, *OPTIONS[model], "--seed", seed) == 0
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert Run(tmp_path / "a").history() != Run(tmp_path / "c").history()


@pytest.mark.parametrize(
    "model, learning_rate, expected",
    [
        ("encoder", "1e30", "expected .*finite.*"),
        ("encoder", "1e300", "expected .*finite.*"),
        ("bert", "1e30", "expected .*, got .*"),
    ],
)
def test_a_loss_that_is_not_finite_leaves_a_readable_run(
    model, tmp_path, train, capsys, learning_rate, expected
):
    options = *OPTIONS[model], "--learning-rate", learning_rate
    assert train(tmp_path, *options) == 1
    error = capsys.readouterr().err
    assert re.fullmatch(rf"error: (loss at )?step \d: (.*: )?{expected}\n", error)
    assert Run(tmp_path).settings()["learning_rate"] == float(learning_rate)
    assert len(Run(tmp_path).history()) == int(re.search(r"step (\d)", error)[1]) - 1


# What can go wrong

AT_LEAST_1 = "expected a whole number of at least 1, got"
BAD_OPTIONS = {
    "encoder": [
        (["--epochs", "0"], f"epochs: {AT_LEAST_1} 0"),
        (["--epochs", "-3"], f"epochs: {AT_LEAST_1} -3"),
        (["--learning-rate", "0"], "learning_rate: expected a positive number, got 0.0"),
        (["--learning-rate", "inf"], "learning_rate: expected a .* number, got inf"),
        (["--seed", "-1"], "seed: expected a whole number of at least 0, got -1"),
        (["--out", ""], "folder: expected a path, got ''"),
        (["--resume"], "settings.json: expected the file of a run, found none"),
    ],
    "dates": [(["--steps", "0"], f"steps: {AT_LEAST_1} 0")],
    "bert": [
        (["--steps", "0"], f"steps: {AT_LEAST_1} 0"),
        (["--minutes", "0"], "minutes: expected a positive number, got 0.0"),
        (["--minutes", "nan"], "minutes: expected a finite number, got nan"),
        (["--minutes", "inf"], "minutes: expected a finite number, got inf"),
        (["--learning-rate", "0"], "learning_rate: expected a .* number, got 0.0"),
        (["--text", ""], "text: expected a path, got an empty one"),
        (["--text", "missing.txt"], "missing.txt: expected a readable file, got: .*"),
        (["--resume"], "settings.json: expected the file of a run, found none"),
    ],
    "gpt": [
        (["--steps", "0"], f"steps: {AT_LEAST_1} 0"),
        (["--text", ""], "text: expected a path, got an empty one"),
        (["--pairs", "-1"], "pairs: expected a whole number of at least 0, got -1"),
        (["--zero-stage", "1"], "optimizer: expected adamw with zero_stage, .* got muon"),
        (["--tensor-parallel", "1"], "optimizer: expected adamw with tensor_parallel, .* got muon"),
    ],
    "search": [
        (["--steps", "0"], f"steps: {AT_LEAST_1} 0"),
        (["--text", ""], "text: expected a path, got an empty one"),
        (["--base", ""], "base: expected a path, got an empty one"),
        (["--base", "none"], "folder: expected a folder, or an id of the hub, got 'none'"),
        (["--zero-stage", "1"], "train search: expected no scheme over ranks, .* got zero_stage"),
    ],
}


@pytest.mark.parametrize(
    "model, options, message", [(name, *row) for name, rows in BAD_OPTIONS.items() for row in rows]
)
def test_bad_options_are_one_line_and_leave_no_folder(
    model, tmp_path, train, one_line, options, message
):
    one_line(train(tmp_path / "run", *options), f".*{message}")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "model, options", [("encoder", []), ("encoder", ["--resume"]), ("bert", [])]
)
def test_a_file_in_the_place_of_the_folder_is_one_line(tmp_path, train, one_line, options):
    (tmp_path / "run").write_text("mine")
    one_line(train(tmp_path / "run", *options), ".*run.*: expected .*")
    assert (tmp_path / "run").read_text() == "mine"


def put(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def remove_checkpoint(folder):
    (folder / "checkpoint.safetensors").unlink()


def rename_a_word(folder):
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace('"mouse"', '"moose"'))


OTHER_BLOCKS = to_safetensors({"other": np.ones(3)})
OTHER = "expected the file that checkpoint.*"
DAMAGES = {
    "encoder": [
        (cut("checkpoint.safetensors"), "expected a whole safetensors file, got: .*"),
        (remove_checkpoint, "expected the file of a run, found none"),
        (cut("settings.json"), "expected whole JSON, got: .*"),
        (edit("model", "bert"), "expected a run of 'train encoder', got one of 'train bert'"),
        (put("settings.json", b"[]"), "expected a run of 'train encoder', got other settings"),
    ],
    "dates": [
        (edit("characters", "abc"), f"settings.json: {OTHER}"),
        (edit("model", "encoder"), "expected a run of 'train dates', got .*"),
    ],
    "bert": [
        (cut("checkpoint.safetensors"), "checkpoint.* whole safetensors file, got: .*"),
        (cut("blocks.safetensors"), f"blocks.safetensors: {OTHER}"),
        (cut("settings.json"), "expected whole JSON, got: .*"),
        (edit("model", "dates"), "expected a run of 'train bert', got one of 'train dates'"),
        (cut("tokenizer.json"), f"tokenizer.json: {OTHER}"),
        (rename_a_word, f"tokenizer.json: {OTHER}"),
        (put("blocks.safetensors", OTHER_BLOCKS), f"blocks.safetensors: {OTHER}"),
        (edit("learning_rate", 0.1), f"settings.json: {OTHER}"),
    ],
    "gpt": [
        (cut("tokens.safetensors"), f"tokens.safetensors: {OTHER}"),
        (cut("tokenizer.json"), f"tokenizer.json: {OTHER}"),
        (edit("optimizer", "adamw"), f"settings.json: {OTHER}"),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "model, damage, message", [(name, *row) for name, rows in DAMAGES.items() for row in rows]
)
def test_a_damaged_run_is_one_line_and_is_not_resumed(
    model, uninterrupted, train, files, one_line, damage, message
):
    damage(uninterrupted)
    before = files(uninterrupted)
    one_line(train(uninterrupted, "--resume"), f".*{message}")
    assert files(uninterrupted) == before
    with pytest.raises(ValueError, match=message):
        TASKS[model].load(uninterrupted)


EVERY = {"--out", "--learning-rate", "--seed", "--resume", "--zero-stage", "--tensor-parallel"}
OWN = {
    "encoder": {"--placement", "--epochs"},
    "dates": {"--steps"},
    "bert": {"--text", "--minutes", "--steps"},
    "gpt": {"--text", "--minutes", "--steps", "--optimizer", "--pairs"},
    "search": {"--text", "--minutes", "--steps", "--base"},
}


@every_model
def test_help_names_every_option(model, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["train", model, "--help"])
    assert exit_.value.code == 0
    options = re.findall(r"^  (--[a-z-]+)", capsys.readouterr().out, re.MULTILINE)
    assert {*options} == EVERY | OWN[model]
