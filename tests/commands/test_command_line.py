"""The command line in its surroundings: streams, signals, disks, encodings, what is installed."""

import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from helpers.processes import start
from helpers.texts import ROOT

from transformer_core.__main__ import main
from transformer_core.commands.command_line import EXTRAS
from transformer_core.training import Run

posix = pytest.mark.skipif(os.name == "nt", reason="streams and signals of POSIX")


def shell(line, **environment):
    """Run a line of the shell, in which ``$core`` is the command line."""
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        cwd=ROOT,
        env=os.environ
        | {"core": f"{sys.executable} -m transformer_core", "PYTHONUNBUFFERED": ""}
        | environment,
        capture_output=True,
        text=True,
        errors="surrogateescape",
    )


def start_training(folder, epochs):
    """Start a training whose every step moves its progress bar."""
    return start(
        *("train", "encoder", "--out", folder, "--epochs", epochs),
        stderr=subprocess.PIPE,
        env=os.environ | {"TQDM_DISABLE": "", "TQDM_MININTERVAL": "0"},
    )


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "encoder"
    assert main(["train", "encoder", "--out", str(folder), "--epochs", "1"]) == 0
    return folder


# Streams


@pytest.mark.slow
@posix
@pytest.mark.parametrize("command", ["--help", "train --help", "train encoder {}"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_that_nobody_reads_on_ends_quietly(encoder, command, unbuffered):
    command = command.format(f"--out {encoder} --resume")
    result = shell(f"$core {command} | true", PYTHONUNBUFFERED=unbuffered)
    assert (result.returncode, result.stderr) == (141, "")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["--help", "train encoder {}"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_without_room_is_one_line(encoder, command, unbuffered):
    command = command.format(f"--out {encoder} --resume")
    result = shell(f"$core {command} > /dev/full", PYTHONUNBUFFERED=unbuffered)
    assert result.returncode == 1
    assert re.fullmatch("error: .*No space left on device: 'standard output'\n", result.stderr)


@posix
def test_an_output_that_is_closed_is_one_line_and_no_training(tmp_path):
    result = shell(f"$core train encoder --out {tmp_path}/run --epochs 1 >&-")
    assert result.returncode == 1
    assert result.stderr == ("error: standard output: expected an open one, got a closed one\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.thorough
@posix
def test_training_needs_no_error_stream(tmp_path):
    folder = tmp_path / "run"
    train = ["train", "encoder", "--out", str(folder), "--epochs", "2"]
    script = (
        "from transformer_core.__main__ import main\n"
        f"print(main({train}), flush=True)\n"
        f"print(main({['read', str(folder), 'x']}))\n"
    )
    result = shell(f'{sys.executable} -c "{script}" 2>&-')
    *printed, trained, read = result.stdout.splitlines()
    assert (trained, read) == ("0", "1")
    assert "it/s" not in result.stdout and "step" not in result.stdout
    assert printed[-1] == f"saved in {folder}" and len(printed) == 4
    assert Run(folder).steps() == 2


@pytest.mark.thorough
@posix
def test_an_error_stream_that_nobody_reads_any_more_does_not_end_a_training(tmp_path):
    folder = tmp_path / "run"
    with start_training(folder, 5) as process:
        assert process.stderr.read(1)
        process.stderr.close()
        assert b"saved in" in process.stdout.read()
        assert process.wait(60) == 0
    assert Run(folder).steps() == 5


@posix
@pytest.mark.parametrize(
    "redirection, message",
    [
        ("<&-", "standard input: expected lines to read, got a closed one"),
        pytest.param(
            "0> {}/file", r"standard input: .*Bad file descriptor", marks=pytest.mark.thorough
        ),
    ],
)
def test_an_input_that_cannot_be_read_is_one_line(tmp_path, redirection, message):
    script = tmp_path / "read.py"
    script.write_text(
        "import sys\n"
        "from transformer_core.__main__ import main\n"
        "from transformer_core.commands import read\n"
        "read.load = lambda folder: None\n"
        "sys.exit(main(['read', 'RUN']))\n"
    )
    result = shell(
        f"{sys.executable} {script} {redirection.format(tmp_path)}", PYTHONPATH=str(ROOT)
    )
    assert result.returncode == 1
    assert re.fullmatch(f"error: {message}\n", result.stderr)


# Encodings


@pytest.mark.slow
@posix
@pytest.mark.parametrize(
    "name, encoding", [("übung", "ascii"), (os.fsdecode(b"\xfcbung"), "utf-8")]
)
def test_a_folder_may_have_any_name(tmp_path, name, encoding):
    folder = tmp_path / name
    result = shell(f"$core train encoder --out '{folder}' --epochs 1", PYTHONIOENCODING=encoding)
    assert (result.returncode, result.stderr) == (0, "")
    assert "saved in" in result.stdout
    assert Run(folder).steps() == 1


# Ctrl-C


@posix
def test_ctrl_c_ends_a_training_with_a_checkpoint_and_says_which(tmp_path):
    folder = tmp_path / "run"
    with start_training(folder, 100000) as process:
        while b"loss" not in process.stderr.read1():
            pass
        process.send_signal(signal.SIGINT)
        error = process.stderr.read().decode()
        assert process.wait(60) == 130
    steps = Run(folder).steps()
    assert error.endswith(f"stopped; {folder} holds step {steps}; --resume continues from there\n")
    assert "Traceback" not in error
    assert len(Run(folder).history()) == steps >= 1
    assert steps % 50  # no checkpoint was due


def test_ctrl_c_while_numpy_is_imported_is_one_line():
    script = (
        "import runpy, sys\n"
        "class Press:\n"
        " def find_spec(name, *_):\n"
        "  if name == 'numpy': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Press)\n"
        "sys.argv = ['transformer_core', '--help']\n"
        "runpy.run_module('transformer_core', run_name='__main__', alter_sys=True)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True
    )
    assert (result.returncode, result.stderr) == (130, "stopped\n")


def test_ctrl_c_after_training_says_that_it_is_saved(encoder, monkeypatch, capsys):
    def press(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("transformer_core.tasks.reconstruction.recipe.predict_zero", press)
    assert main(["train", "encoder", "--out", str(encoder), "--resume"]) == 130
    assert capsys.readouterr().err == (
        f"stopped; {encoder} holds step 1; --resume continues from there\n"
    )


# Disks


@pytest.mark.thorough
@posix
def test_a_disk_without_room_is_one_line_and_the_run_resumes(tmp_path):
    """Files that may not grow to the size of a checkpoint, then to that of a history."""
    folder = tmp_path / "run"
    train = f"$core train encoder --out {folder} --epochs 60"
    result = shell(f"ulimit -f 20; {train}")
    assert result.returncode == 1
    assert re.fullmatch("error: .*checkpoint.safetensors'\n", result.stderr)
    assert main(["train", "encoder", "--out", str(folder), "--epochs", "1"]) == 0


# What is installed, and what the options say


def test_the_extra_is_the_one_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    train = project["optional-dependencies"]["train"]
    names = {requirement.partition(">=")[0] for requirement in train}
    assert names == {name for name, extra in EXTRAS.items() if extra == "train"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "model, module",
    [
        ("encoder", "tqdm"),
        ("encoder", "safetensors"),
        ("dates", "babel"),
        ("dates", "threadpoolctl"),
        ("bert", "tokenizers"),
    ],
)
def test_what_is_not_installed_is_one_line_and_leaves_no_folder(
    tmp_path, monkeypatch, capsys, model, module
):
    text = tmp_path / "words.txt"
    text.write_text("\n\n".join("cats chase dogs " * (k + 90) for k in range(60)))
    options = ["--text", str(text)] if model == "bert" else []
    for name in {module, *sys.modules}:
        if name.partition(".")[0] == module:
            monkeypatch.setitem(sys.modules, name, None)
    folder = tmp_path / "run"
    assert main(["train", model, "--out", str(folder), *options]) == 1
    assert capsys.readouterr().err == (
        f"error: {module} is not installed, try: python -m pip install 'transformer-core[train]'\n"
    )
    assert not folder.exists()


def test_a_mistake_of_the_package_shows_where_it_is(encoder, monkeypatch):
    def mistake(*_):
        raise KeyError("oops")

    monkeypatch.setattr("transformer_core.commands.train.train_on_disk", mistake)
    with pytest.raises(KeyError, match="oops"):
        main(["train", "encoder", "--out", str(encoder), "--resume"])


@pytest.mark.parametrize(
    "options, message",
    [
        (["--seed", "1"], "seed: expected 0, as .* was started with, got 1"),
        (["--placement", "post"], "placement: expected pre, as .* was started with, got post"),
        (["--learning-rate", "1"], "learning_rate: expected 0.003, as .*, got 1.0"),
    ],
)
def test_an_option_that_contradicts_the_run_is_one_line(encoder, one_line, options, message):
    one_line(main(["train", "encoder", "--out", str(encoder), "--resume", *options]), message)


def test_a_finished_run_is_extended_as_if_it_had_been_longer(tmp_path, files):
    def train(folder, epochs, *options):
        arguments = ["--out", str(tmp_path / folder), "--epochs", epochs, *options]
        assert main(["train", "encoder", *arguments]) == 0
        return files(tmp_path / folder)

    train("extended", "2")
    assert train("extended", "3", "--resume") == train("longer", "3")
