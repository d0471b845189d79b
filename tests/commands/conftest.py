"""Small trainings on the command line."""

import io
import re
from contextlib import contextmanager, redirect_stdout
from functools import cache
from itertools import product
from shutil import copytree

import pytest
from helpers.small_trainings import OPTIONS, TEXT, shrink

from transformer_core.__main__ import main
from transformer_core.optim.optimizer import Optimizer

ANIMALS = "cat dog mouse horse sheep goat duck hen pig cow"
PLACES = "barn field river road garden kitchen attic forest pond hill"


@pytest.fixture(scope="session")
def places(tmp_path_factory):
    """The path of texts about one animal and one place each, which the first sentence names."""
    folder = tmp_path_factory.mktemp("places")
    for animal, place in product(ANIMALS.split(), PLACES.split()):
        text = f"Of {animal} and {place}. " + f"one {animal} by one {place}. " * 10
        (folder / f"{place} {animal}.txt").write_text(text)
    return str(folder)


@pytest.fixture(scope="session")
def train_model(text, places):
    """Train a model into a folder, on its text; return the exit status."""

    def train(model, folder, *options):
        if model in TEXT and not {"--resume", "--text"} & {*options}:
            options = "--text", places if model == "search" else text, *options
        return main(["train", model, "--out", str(folder), *options])

    return train


@pytest.fixture
def train(model, train_model, monkeypatch):
    """Train a small ``model`` into a folder; return the exit status."""
    shrink(monkeypatch)
    return lambda folder, *options: train_model(model, folder, *options)


@pytest.fixture(scope="session")
def whole(train_model, tmp_path_factory):
    """The folder of a small training of twelve steps, by its model, and what it printed."""

    @cache
    def whole(model):
        folder = tmp_path_factory.mktemp("whole") / model
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as printed:
            shrink(patch)
            assert train_model(model, folder, *OPTIONS[model]) == 0
        return folder, printed.getvalue()

    return whole


@pytest.fixture
def uninterrupted(model, tmp_path, train, whole):
    """A folder of a training of twelve steps, to do with as one likes."""
    return copytree(whole(model)[0], tmp_path / "uninterrupted")


@pytest.fixture
def one_line(capsys):
    """Hold a command that failed to one line, which fits a pattern, and no other output."""

    def check(status, message):
        out, err = capsys.readouterr()
        assert (status, out) == (1, "")
        assert re.fullmatch(f"error: {message}\n", err)

    return check


@pytest.fixture
def ctrl_c(monkeypatch):
    """Press Ctrl-C, in a context, where so many steps are taken."""

    @contextmanager
    def after(steps):
        step = Optimizer.step

        def pressed(optimizer, *arguments):
            if optimizer.steps == steps:
                raise KeyboardInterrupt
            return step(optimizer, *arguments)

        with monkeypatch.context() as patch:
            patch.setattr(Optimizer, "step", pressed)
            yield

    return after


@pytest.fixture
def files():
    """The contents of a folder's files, by name."""
    return lambda folder: {path.name: path.read_bytes() for path in folder.iterdir()}
