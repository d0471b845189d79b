import io
import json
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.texts import ROOT

from transformer_core import __version__
from transformer_core.__main__ import main
from transformer_core.layers import LayerSpec
from transformer_core.tasks.reconstruction import Reconstruction, Reconstructor, load, recipe
from transformer_core.training import Run

OPTIONS = ["--out", "--placement", "--epochs", "--learning-rate", "--seed", "--resume"]
OPTIONS += ["--zero-stage", "--tensor-parallel"]


def train(folder, *options):
    return main(["train", "encoder", "--out", str(folder), *options])


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module", params=["pre", "post"])
def finished(request, tmp_path_factory):
    """A run of all its 500 epochs, and the three errors that it printed."""
    folder = tmp_path_factory.mktemp("runs") / request.param
    printed = io.StringIO()
    with redirect_stdout(printed):
        status = train(folder, "--placement", request.param)
    figures = re.findall(r"^MSE .* (\d\.\d{5})$", printed.getvalue(), re.MULTILINE)
    return SimpleNamespace(
        placement=request.param,
        folder=folder,
        status=status,
        printed=printed.getvalue(),
        figures=[float(figure) for figure in figures],
    )


@pytest.mark.slow
def test_the_encoder_learns_the_task(finished):
    on_training, on_unseen, _ = finished.figures
    assert finished.status == 0
    assert on_training <= 0.0005
    assert on_unseen <= 0.0043


@pytest.mark.slow
def test_a_finished_run_is_on_disk(finished):
    assert finished.printed.endswith(f"saved in {finished.folder}\n")
    run = Run(finished.folder)
    assert run.settings() == recipe.DEFAULTS | {
        "model": "encoder",
        "version": __version__,
        "spec": asdict(LayerSpec(64, 4, 256, finished.placement)),
    }
    assert [record["step"] for record in run.history()] == list(range(1, 501))
    assert run.history()[-1]["loss"] < 1e-3 * run.history()[0]["loss"]


@pytest.mark.slow
def test_the_printed_errors_are_those_of_the_checkpoint(finished):
    rng = np.random.default_rng(0)
    task = Reconstruction(rng)
    samples = [task.sample(sequences, rng) for sequences in (32, 256)]
    encoder = load(finished.folder)
    errors = [((encoder.forward(inputs)[0] - targets) ** 2).mean() for inputs, targets in samples]
    errors.append((samples[1][1] ** 2).mean())
    assert finished.figures == pytest.approx(errors, abs=6e-6)


@pytest.mark.slow
def test_a_finished_run_resumed_prints_the_same_and_changes_nothing(finished, capsys):
    before = files(finished.folder)
    assert train(finished.folder, "--resume") == 0
    assert capsys.readouterr().out == finished.printed
    assert files(finished.folder) == before


@pytest.fixture
def often(monkeypatch):
    """A checkpoint every 5 epochs."""
    monkeypatch.setitem(recipe.DEFAULTS, "checkpoint_every", 5)


@pytest.fixture
def uninterrupted(tmp_path, often):
    folder = tmp_path / "uninterrupted"
    assert train(folder, "--epochs", "12") == 0
    return folder


def test_an_interrupted_run_resumed_equals_an_uninterrupted_one_bit_by_bit(
    tmp_path, uninterrupted, monkeypatch, capsys
):
    folder = tmp_path / "interrupted"
    forward = Reconstructor.loss_and_gradients
    calls = []

    def interrupted(*arguments, rng):
        if len(calls) == 8:
            raise KeyboardInterrupt
        calls.append(1)
        return forward(*arguments, rng=rng)

    with monkeypatch.context() as patch:
        patch.setattr(Reconstructor, "loss_and_gradients", interrupted)
        assert train(folder, "--epochs", "12") == 130
    error = capsys.readouterr().err
    assert error == f"stopped; {folder} holds step 5, from which --resume goes on\n"
    assert len(Run(folder).history()) == 8

    assert train(folder, "--resume") == 0
    assert files(folder) == files(uninterrupted)


def test_a_killed_run_resumed_equals_an_uninterrupted_one_bit_by_bit(
    tmp_path, uninterrupted, monkeypatch
):
    copy = tmp_path / "copy"
    save_checkpoint = Run.save_checkpoint
    calls = []

    def save_and_copy(run, *arguments):
        save_checkpoint(run, *arguments)
        calls.append(1)
        if len(calls) == 1:  # what a power cut would leave
            shutil.copytree(run.folder, copy)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "save_checkpoint", save_and_copy)
        train(tmp_path / "killed", "--epochs", "12")
    assert len(Run(copy).history()) == 5

    assert train(copy, "--resume") == 0
    assert files(copy) == files(uninterrupted)


def test_the_same_seed_gives_the_same_run_and_another_another(tmp_path):
    for folder, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        assert train(tmp_path / folder, "--epochs", "2", "--seed", seed) == 0
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert Run(tmp_path / "a").history() != Run(tmp_path / "c").history()


def test_a_run_that_is_older_than_a_field_of_the_spec_is_loaded(tmp_path, monkeypatch):
    older = {name: v for name, v in recipe.DEFAULTS["spec"].items() if name != "dropout"}
    with monkeypatch.context() as patch:
        patch.setitem(recipe.DEFAULTS, "spec", older)
        assert train(tmp_path / "run", "--epochs", "1") == 0
    assert "dropout" not in Run(tmp_path / "run").settings()["spec"]
    assert load(tmp_path / "run").encoder.layers[0].attention.dropout == 0
    assert train(tmp_path / "run", "--resume") == 0


@pytest.mark.parametrize("learning_rate", ["1e30", "1e300"])
def test_a_loss_that_is_not_finite_leaves_a_readable_run(tmp_path, capsys, learning_rate):
    folder = tmp_path / "run"
    assert train(folder, "--epochs", "9", "--learning-rate", learning_rate) == 1
    error = capsys.readouterr().err
    assert re.fullmatch(r"error: (loss at )?step \d: (.*: )?expected .*finite.*\n", error)
    step = int(re.search(r"step (\d)", error)[1])
    assert Run(folder).settings()["learning_rate"] == float(learning_rate)
    assert len(Run(folder).history()) == step - 1


@pytest.mark.parametrize(
    "options, message",
    [
        (["--epochs", "0"], "epochs: expected a whole number of at least 1, got 0"),
        (["--epochs", "-3"], "epochs: expected a whole number of at least 1, got -3"),
        (["--learning-rate", "0"], "learning_rate: expected a positive number, got 0.0"),
        (["--learning-rate", "inf"], "learning_rate: expected a .* number, got inf"),
        (["--seed", "-1"], "seed: expected a whole number of at least 0, got -1"),
        (["--out", ""], "folder: expected a path, got ''"),
        (["--resume"], "settings.json: expected the file of a run, found none"),
    ],
)
def test_bad_options_are_one_line_and_leave_no_folder(tmp_path, capsys, options, message):
    assert train(tmp_path / "run", *options) == 1
    assert re.fullmatch(f"error: .*{message}\n", capsys.readouterr().err)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "content, message",
    [
        ({"notes.txt": "mine"}, "expected a new or empty folder, got one in use"),
        ({"settings.json": "{}"}, "in use; --resume goes on with the run in it"),
    ],
)
def test_a_folder_in_use_is_one_line_and_stays_as_it_is(tmp_path, capsys, content, message):
    for name, text in content.items():
        (tmp_path / name).write_text(text)
    assert train(tmp_path) == 1
    assert re.fullmatch(f"error: .*{message}\n", capsys.readouterr().err)
    assert files(tmp_path) == {name: text.encode() for name, text in content.items()}


@pytest.mark.parametrize("options", [[], ["--resume"]])
def test_a_file_in_the_place_of_the_folder_is_one_line(tmp_path, capsys, options):
    (tmp_path / "run").write_text("mine")
    assert train(tmp_path / "run", *options) == 1
    assert re.fullmatch("error: .*run.*: expected .*\n", capsys.readouterr().err)
    assert (tmp_path / "run").read_text() == "mine"


def cut_checkpoint(folder):
    path = folder / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:-7])


def remove_checkpoint(folder):
    (folder / "checkpoint.safetensors").unlink()


def cut_settings(folder):
    path = folder / "settings.json"
    path.write_text(path.read_text()[:-3])


def change_model(folder):
    settings = json.loads((folder / "settings.json").read_text())
    (folder / "settings.json").write_text(json.dumps(settings | {"model": "bert"}))


def list_settings(folder):
    (folder / "settings.json").write_text("[]")


@pytest.mark.parametrize(
    "damage, message",
    [
        (cut_checkpoint, "expected a whole safetensors file, got: .*"),
        (remove_checkpoint, "expected the file of a run, found none"),
        (cut_settings, "expected whole JSON, got: .*"),
        (change_model, "expected a run of 'train encoder', got one of 'train bert'"),
        (list_settings, "expected a run of 'train encoder', got other settings"),
    ],
)
def test_a_damaged_run_is_one_line_and_is_not_resumed(tmp_path, capsys, damage, message):
    folder = tmp_path / "run"
    assert train(folder, "--epochs", "1") == 0
    damage(folder)
    before = files(folder)
    capsys.readouterr()
    assert train(folder, "--resume") == 1
    captured = capsys.readouterr()
    assert re.fullmatch(f"error: .*{message}\n", captured.err)
    assert captured.out == ""
    assert files(folder) == before


def test_help_names_every_option(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["train", "encoder", "--help"])
    assert exit_.value.code == 0
    text = capsys.readouterr().out
    assert all(option in text for option in OPTIONS)
    assert set(re.findall(r"^  (--[a-z-]+)", text, re.MULTILINE)) == set(OPTIONS)


@pytest.mark.parametrize("arguments", [[], ["train"], ["train", "encoder"]])
def test_a_command_that_is_not_complete_is_explained(capsys, arguments):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("usage: transformer-core")
    assert "the following arguments are required" in error


def test_it_runs_from_a_shell(tmp_path):
    result = subprocess.run(
        [sys.executable, "-m", "transformer_core", "train", "encoder"]
        + ["--out", str(tmp_path), "--resume"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert result.stdout == ""
    assert re.fullmatch("error: .*settings.json: expected .*\n", result.stderr)
