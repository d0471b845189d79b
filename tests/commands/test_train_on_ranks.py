"""``mpiexec -n N python -m transformer_core train``: one training on many processes."""

import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from helpers import small_trainings
from helpers.ranks import MPIEXEC, mpiexec, on_mpi
from helpers.small_trainings import OPTIONS, TEXT

from transformer_core.training import Run

FILES = "checkpoint.safetensors", "history.json"
# Losses in float32 after 12 steps: what rounding becomes when Adam divides by small roots.
CLOSE = 1e-4


def train(ranks, model, folder, *options):
    """Train on ranks, a process each; return what was printed."""
    arguments = "train", model, "--out", folder, *options
    result = mpiexec(ranks, small_trainings.__file__, *arguments, timeout=240)
    assert result.returncode == 0, result.stderr
    return result.stdout


def files(folder):
    return [Run(folder).read(name) for name in FILES]


def losses(folder):
    return np.array([record["loss"] for record in Run(folder).history()])


@pytest.fixture
def options(model, text):
    return [*OPTIONS[model], *(["--text", text] if model in TEXT else [])]


@on_mpi
@pytest.mark.slow
@pytest.mark.parametrize("model", sorted(OPTIONS.keys() - {"search"}))  # which takes one process
def test_ranks_have_the_loss_curve_of_one_process(tmp_path, model, options):
    """Alone, all but the encoder take two shards, in two threads: the bits of two ranks."""
    printed = train(1, model, tmp_path / "1", *options)
    for ranks in (2, 4):
        folder = tmp_path / str(ranks)
        on_ranks = train(ranks, model, folder, *options)
        assert on_ranks.count("saved in") == 1
        assert len(on_ranks.splitlines()) == len(printed.splitlines())
        np.testing.assert_allclose(losses(folder), losses(tmp_path / "1"), rtol=CLOSE)
    assert (files(tmp_path / "1") == files(tmp_path / "2")) == (model != "encoder")


@on_mpi
@pytest.mark.slow
@pytest.mark.parametrize("ranks, then", [(2, 4), (4, 1)])
def test_ctrl_c_ends_all_ranks_with_a_checkpoint_and_another_number_goes_on(tmp_path, ranks, then):
    folder, whole = tmp_path / "run", tmp_path / "whole"
    long = ["train", "encoder", "--out", folder, "--epochs", "3000"]
    command = [MPIEXEC, "-n", ranks, sys.executable, small_trainings.__file__, *long]
    with subprocess.Popen(
        list(map(str, command)), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        while Run(folder).steps() in (None, 0):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=60)[1]
    assert process.returncode != 0
    steps = Run(folder).steps()
    said = f"stopped; {folder} holds step {steps}; --resume continues from there"
    assert error.count(said) == 1 and error.count("stopped") == 1
    assert len(Run(folder).history()) == steps

    more = ["--epochs", str(steps + 3)]
    train(1, "encoder", whole, *more)
    train(then, "encoder", folder, "--resume", *more)
    np.testing.assert_allclose(losses(folder), losses(whole), rtol=CLOSE)


@on_mpi
@pytest.mark.slow
def test_a_time_ends_on_the_same_step_everywhere(tmp_path, text):
    train(3, "bert", tmp_path / "run", "--text", text, "--minutes", "0.02")
    seconds = [record["seconds"] for record in Run(tmp_path / "run").history()]
    assert seconds[-1] >= 1.2 > seconds[-2]


@on_mpi
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(
    "option, message",
    [
        (["--epochs", "0"], "epochs: expected a whole number of at least 1, got 0"),
        (["--resume"], ".*settings.json: expected the file of a run, found none"),
    ],
)
def test_an_error_is_one_line_on_many_ranks(tmp_path, ranks, option, message):
    arguments = ["train", "encoder", "--out", tmp_path / "run", *option]
    result = mpiexec(ranks, small_trainings.__file__, *arguments)
    assert result.returncode == 1 and result.stdout == ""
    errors = re.findall("^error: .*$", result.stderr, re.MULTILINE)
    assert len(errors) == 1 and re.fullmatch(f"error: {message}", errors[0])
    assert not (tmp_path / "run").exists()


SCHEMES = [("--zero-stage", stage) for stage in "123"] + [("--tensor-parallel", "2")]


@on_mpi
@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES, ids=" ".join)
def test_every_scheme_has_the_loss_curve_of_one_process(tmp_path, text, scheme):
    options = ["--text", text]
    printed = train(1, "bert", tmp_path / "1", *options, "--steps", "12")
    on_ranks = train(2, "bert", tmp_path / "2", *options, "--steps", "12", *scheme)
    assert [line.split()[-1] for line in on_ranks.splitlines()[:-1]] == [
        line.split()[-1] for line in printed.splitlines()[:-1]
    ]
    np.testing.assert_allclose(losses(tmp_path / "2"), losses(tmp_path / "1"), rtol=CLOSE)
    assert train(1, "bert", tmp_path / "2", "--resume") == on_ranks  # whole, on disk
    # One process reads what two have written, and two read it again.
    assert train(2, "bert", tmp_path / "2", "--resume", *scheme) == on_ranks


@on_mpi
@pytest.mark.slow
@pytest.mark.parametrize("begun, resumed", [("1", "3"), ("3", "2"), ("3", None), (None, "3")])
def test_a_run_goes_on_with_another_scheme(tmp_path, begun, resumed):
    def options(stage):
        return ["--zero-stage", stage] if stage else []

    train(2, "encoder", tmp_path / "run", "--epochs", "6", *options(begun))
    train(2, "encoder", tmp_path / "run", "--resume", "--epochs", "12", *options(resumed))
    train(1, "encoder", tmp_path / "whole", "--epochs", "12")
    np.testing.assert_allclose(losses(tmp_path / "run"), losses(tmp_path / "whole"), rtol=CLOSE)


@on_mpi
@pytest.mark.slow
def test_a_model_that_cannot_be_cut_is_refused(tmp_path):
    arguments = "train", "encoder", "--out", tmp_path / "run", "--tensor-parallel", "2"
    result = mpiexec(2, small_trainings.__file__, *arguments, timeout=240)
    assert result.returncode == 1
    assert "tensor_parallel: expected a Bert or a Gpt to cut, got Reconstructor" in result.stderr
    assert not (tmp_path / "run").exists()
