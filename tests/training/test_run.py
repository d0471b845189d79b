import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from transformer_core.optim import Adam
from transformer_core.training import Run
from transformer_core.training.run import write_atomically


def draw(rng):
    return {"a.weight": rng.normal(size=(2, 3)), "b": rng.normal(size=4)}


@pytest.fixture
def model(rng):
    """Parameters and an optimiser that has taken two steps."""
    parameters = draw(rng)
    optimizer = Adam(parameters)
    for _ in range(2):
        optimizer.step(draw(rng))
    return parameters, optimizer


@pytest.fixture
def saved(tmp_path, model):
    """A run with a checkpoint of the model."""
    run = Run(tmp_path / "runs" / "first")
    run.create({"seed": 3})
    run.save_checkpoint(*model)
    return run


def fresh(rng):
    parameters = draw(rng)
    return parameters, Adam(parameters)


def copy_of(parameters, optimizer):
    arrays = {**parameters, **optimizer.state()}
    return {name: array.copy() for name, array in arrays.items()}, optimizer.steps


def same(left, right):
    """Compare two results of ``copy_of`` bit by bit."""
    (left_arrays, left_steps), (right_arrays, right_steps) = left, right
    return left_steps == right_steps and all(
        np.array_equal(left_arrays[name], right_arrays[name]) for name in left_arrays
    )


def test_settings_and_history_come_back_as_they_were(saved):
    history = [{"step": 1, "loss": 0.1 + 0.2}, {"step": 2, "loss": 1e-300}]
    saved.save_history(history)
    assert saved.settings() == {"seed": 3}
    assert saved.history() == history


def test_a_checkpoint_comes_back_bit_by_bit(saved, model, rng):
    other = fresh(rng)
    assert not same(copy_of(*other), copy_of(*model))
    saved.load_checkpoint(*other)
    assert same(copy_of(*other), copy_of(*model))


def test_parameters_come_back_without_an_optimizer(saved, model, rng):
    parameters = draw(rng)
    arrays = list(parameters.values())
    saved.load_checkpoint(parameters)
    assert all(np.array_equal(parameters[name], model[0][name]) for name in parameters)
    assert [id(array) for array in parameters.values()] == [id(a) for a in arrays]


def test_a_checkpoint_keeps_the_dtype(tmp_path, rng):
    parameters = {"a": rng.normal(size=3).astype(np.float32)}
    run = Run(tmp_path)
    run.save_checkpoint(parameters, Adam(parameters))
    loaded = {"a": np.zeros(3, np.float32)}
    run.load_checkpoint(loaded)
    assert np.array_equal(loaded["a"], parameters["a"])


def test_no_temporary_file_is_left(saved):
    saved.save_history([])
    assert {path.name for path in saved.folder.iterdir()} == {
        "settings.json",
        "history.json",
        "checkpoint.safetensors",
    }


def test_a_folder_in_use_is_refused(saved):
    with pytest.raises(ValueError, match="first: expected a new or empty folder, got"):
        Run(saved.folder).create({"seed": 4})
    assert saved.settings() == {"seed": 3}


@pytest.mark.parametrize("below", ["", "run"])
def test_a_file_in_the_place_of_the_folder_is_named(tmp_path, below):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match="expected a folder to write to, got: .*file"):
        Run(tmp_path / "file" / below).create({})
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("read", [Run.settings, Run.history])
def test_a_missing_file_is_named(tmp_path, read):
    with pytest.raises(ValueError, match=r"json: expected the file of a run, found no"):
        read(Run(tmp_path / "nowhere"))
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match=r"json: expected the file of a run, found no"):
        read(Run(tmp_path / "file"))


@pytest.mark.parametrize("content", ["", '{"seed": 3', "seed: 3"])
def test_unreadable_json_is_named(saved, content):
    (saved.folder / "settings.json").write_text(content)
    with pytest.raises(ValueError, match=r"settings\.json: expected whole JSON, got: "):
        saved.settings()


def test_a_missing_checkpoint_is_named(tmp_path, rng):
    with pytest.raises(
        ValueError, match="safetensors: expected a checkpoint, found no"
    ):
        Run(tmp_path).load_checkpoint(*fresh(rng))


@pytest.mark.parametrize("share", [0, 0.01, 0.3, 0.6, 0.9, 0.999])
def test_a_checkpoint_cut_short_is_named_and_nothing_is_copied(saved, rng, share):
    path = saved.folder / "checkpoint.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    other = fresh(rng)
    before = copy_of(*other)
    with pytest.raises(ValueError, match="expected a whole safetensors file, got: "):
        saved.load_checkpoint(*other)
    assert same(copy_of(*other), before)


@pytest.mark.parametrize(
    "change, message",
    [
        (
            lambda arrays: {"a.weight": arrays["a.weight"]},
            r"missing none; unknown .*parameters\.b$",
        ),
        (
            lambda arrays: arrays | {"c": np.ones(2)},
            r"missing .*parameters\.c; unknown none$",
        ),
        (
            lambda arrays: arrays | {"b": np.ones((4, 1))},
            r"b: expected shape \(4, 1\), got \(4,\)",
        ),
    ],
)
@pytest.mark.parametrize("with_optimizer", [False, True])
def test_a_checkpoint_of_another_model_is_named_and_nothing_is_copied(
    saved, rng, change, message, with_optimizer
):
    parameters = change(draw(rng))
    optimizer = Adam(parameters)
    before = copy_of(parameters, optimizer)
    with pytest.raises(ValueError, match=message):
        saved.load_checkpoint(parameters, optimizer if with_optimizer else None)
    assert same(copy_of(parameters, optimizer), before)


@pytest.mark.parametrize("metadata", [None, {}, {"steps": "many"}])
def test_a_file_without_the_number_of_steps_is_named(saved, model, metadata):
    parameters, optimizer = model
    save_file(parameters, saved.folder / "checkpoint.safetensors", metadata)
    before = copy_of(*model)
    with pytest.raises(ValueError, match="expected the number of steps, got '"):
        saved.load_checkpoint(*model)
    assert same(copy_of(*model), before)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_parameters_that_are_not_finite_are_not_saved(saved, model, bad):
    path = saved.folder / "checkpoint.safetensors"
    earlier = path.read_bytes()
    model[0]["b"][2] = bad
    with pytest.raises(ValueError, match="b: expected finite numbers to save, got NaN"):
        saved.save_checkpoint(*model)
    assert path.read_bytes() == earlier


@pytest.mark.parametrize(
    "owner, failing", [(os, "fsync"), (Path, "replace"), (Path, "open")]
)
def test_a_write_that_fails_leaves_the_old_file_whole(
    saved, model, monkeypatch, owner, failing
):
    def fail(*_, **__):
        raise OSError("no space left")

    path = saved.folder / "checkpoint.safetensors"
    earlier = path.read_bytes()
    names = set(saved.folder.iterdir())
    model[1].step({name: np.ones_like(array) for name, array in model[0].items()})
    with monkeypatch.context() as patch:
        patch.setattr(owner, failing, fail)
        with pytest.raises(OSError, match="no space left"):
            saved.save_checkpoint(*model)
    assert path.read_bytes() == earlier
    assert set(saved.folder.iterdir()) == names


def test_a_write_cut_short_never_shows_in_the_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    seen = []
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda file: (seen.append(path.read_bytes()), fsync(file))
    )
    write_atomically(path, b"new")
    assert seen == [b"old"]
    assert path.read_bytes() == b"new"


def test_files_are_plain_json(saved):
    assert json.loads((saved.folder / "settings.json").read_bytes()) == {"seed": 3}
