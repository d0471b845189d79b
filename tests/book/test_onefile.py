"""The encoder in one file, which ``make onefile`` writes and the book offers for download."""

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.texts import ROOT, imported, read

from book._ext import onefile
from transformer_core.__main__ import main
from transformer_core.layers.spec import LayerSpec
from transformer_core.tasks.reconstruction import Reconstructor
from transformer_core.training import Run
from transformer_core.training.blas import one_blas_thread
from transformer_practice.engine.planting import edited
from transformer_practice.mistakes import MUTANTS

# One thread: two programs then sum in the same order.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("empty") / "transformer.py"
    path.write_text(onefile.one_file(), encoding="utf-8")
    return path


@pytest.fixture
def names(file):
    return runpy.run_path(str(file))


@pytest.fixture
def checkout(tmp_path):
    """A copy of what the file is made from."""
    shutil.copytree(ROOT / "transformer_core", tmp_path / "transformer_core")
    shutil.copytree(ROOT / "book/_ext", tmp_path / "book/_ext")
    return tmp_path


def change(path, old, new):
    text = read(path)
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.slow
def test_it_has_at_most_500_lines(file):
    assert len(read(file).splitlines()) <= 500


def test_it_imports_numpy_and_the_standard_library_only(file):
    assert imported(read(file)) - sys.stdlib_module_names == {"numpy"}


def test_it_is_in_the_style_of_the_package_and_every_function_is_used(file):
    for command in (["check", "--extend-select=F"], ["format", "--check"]):
        settings = ["--config", str(ROOT / "transformer_core/ruff.toml"), str(file)]
        subprocess.run([sys.executable, "-m", "ruff", *command, *settings], check=True)
    text = read(file)
    used = onefile.names(text) | onefile.attributes_of(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            assert node.name in used or node.name.startswith("__"), node.name


def test_it_starts_from_the_parameters_of_the_package(names):
    model = Reconstructor(LayerSpec(64, 4, 256, "pre"), 2, np.random.default_rng(7))
    expected = model.parameters().values()
    drawn = names["draw_parameters"](np.random.default_rng(7)).values()
    assert sorted(a.tobytes() for a in drawn) == sorted(a.tobytes() for a in expected)


@pytest.mark.slow
def test_its_losses_are_those_of_the_package_bit_by_bit(names, tmp_path):
    main(["train", "encoder", "--out", str(tmp_path / "run"), "--epochs", "40"])
    expected = [record["loss"] for record in Run(tmp_path / "run").history()]
    with one_blas_thread():  # as the package's loop does
        losses, *_ = names["train"](40)
    assert losses == expected
    assert losses[-1] < losses[0] / 10


@pytest.mark.slow
def test_in_an_empty_folder_it_checks_its_gradients_and_trains_to_the_chapters_figure(
    file, tmp_path
):
    def run(folder, *command):
        environment = os.environ | ONE_THREAD
        command = [sys.executable, *command]
        return subprocess.check_output(command, cwd=folder, env=environment, text=True)

    printed = run(file.parent, "transformer.py")
    error = re.match(r"largest relative error of a gradient  (\S+)\n", printed)[1]
    assert float(error) < 1e-11
    train = ["-m", "transformer_core", "train", "encoder", "--out", str(tmp_path / "a")]
    expected = re.findall(r"^MSE on .*", run(ROOT, *train), re.MULTILINE)
    assert len(expected) == 2
    assert re.findall(r"^MSE on .*", printed, re.MULTILINE) == expected


@pytest.mark.slow
@pytest.mark.parametrize("mistake", ["relu-passes-everything", "layer-norm-no-variance-term"])
def test_it_does_not_train_on_a_wrong_gradient_of_the_package(checkout, mistake):
    mutant = MUTANTS[mistake]
    source = checkout / "transformer_core" / mutant.file
    source.write_text(edited(read(source), mutant), encoding="utf-8")
    wrong = checkout / "transformer.py"
    wrong.write_text(onefile.one_file(checkout), encoding="utf-8")
    it_does_not_train(wrong)


def test_it_does_not_train_on_a_wrong_gradient_of_its_own(file, tmp_path):
    wrong = tmp_path / "transformer.py"
    shutil.copy(file, wrong)
    change(wrong, "dx = dx + run(layer_norm_backward", "dx = run(layer_norm_backward")
    it_does_not_train(wrong)


def it_does_not_train(path):
    with pytest.raises(SystemExit, match="a gradient is wrong"):
        runpy.run_path(str(path), run_name="__main__")


@pytest.mark.slow
def test_it_follows_the_package(checkout):
    assert onefile.one_file(checkout) == onefile.one_file()
    change(checkout / "transformer_core/ops/relu.py", "x.real > 0", "x.real >= 0")
    text = onefile.one_file(checkout)
    assert text == onefile.one_file().replace("x.real > 0", "x.real >= 0")


@pytest.mark.slow
@pytest.mark.parametrize(
    "path, old, new, message",
    [
        (
            "optim/schedules.py",
            "def warmup_stable_decay",
            "def warmup",
            "transformer_core.optim.schedules: expected it to have warmup_stable_decay",
        ),
        (
            "ops/attention.py",
            "dropped @ value",
            "np.matmul(dropped, value)",
            "attention: expected this text once in this part, found it 0 times: dropped @ value",
        ),
        (
            "ops/relu.py",
            "ReluCache",
            "SoftmaxCache",
            "SoftmaxCache: expected one part of this name, got one of",
        ),
        (
            "ops/relu.py",
            "import numpy as np",
            "from transformer_core.layers.gates import np",
            "transformer_core.layers.gates: expected a module, found none",
        ),
    ],
)
def test_what_it_does_not_find_is_named(checkout, path, old, new, message):
    change(checkout / "transformer_core" / path, old, new)
    with pytest.raises(ValueError, match=re.escape(message)):
        onefile.one_file(checkout)


@pytest.mark.slow
def test_the_book_writes_it_before_it_reads_a_page_and_offers_it(checkout):
    connected = {}
    onefile.setup(SimpleNamespace(connect=connected.__setitem__))
    connected["builder-inited"](SimpleNamespace(srcdir=str(checkout)))
    path = checkout / onefile.TARGET
    assert read(path) == onefile.one_file()
    path.write_text("old", encoding="utf-8")
    connected["builder-inited"](SimpleNamespace(srcdir=str(checkout)))
    assert read(path) == onefile.one_file()

    assert "onefile: book/_ext" in read(ROOT / "_config.yml")
    for page in ("310_train_encoder", "how_to_run"):
        text = read(ROOT / f"book/{page}.md")
        (target,) = re.findall(r"\{download\}`transformer.py <(.*)>`", text)
        assert (ROOT / "book" / target).resolve() == ROOT / onefile.TARGET
