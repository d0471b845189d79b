import json
import os
import pickle
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from helpers.texts import ROOT
from safetensors.numpy import save_file

from transformer_core.foundation.files import to_safetensors, write_atomically
from transformer_core.optim import Adam
from transformer_core.training import Run


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


@pytest.fixture
def checkpoint(saved):
    """The path of the checkpoint."""
    return saved.path("checkpoint.safetensors")


def fresh(rng):
    parameters = draw(rng)
    return parameters, Adam(parameters)


def copy_of(parameters, optimizer=None):
    state, steps = (optimizer.state(), optimizer.steps) if optimizer else ({}, 0)
    return {name: array.copy() for name, array in (parameters | state).items()}, steps


def same(left, right):
    """Compare two results of ``copy_of`` bit by bit."""
    (left_arrays, left_steps), (right_arrays, right_steps) = left, right
    return left_steps == right_steps and all(
        np.array_equal(left_arrays[name], right_arrays[name]) for name in left_arrays
    )


def assert_not_loaded(run, message, *model):
    """The checkpoint is refused, and nothing of it is copied."""
    before = copy_of(*model)
    with pytest.raises(ValueError, match=message):
        run.load_checkpoint(*model)
    assert same(copy_of(*model), before)


def test_settings_and_history_come_back_as_they_were(saved):
    history = [{"step": 1, "loss": 0.1 + 0.2}, {"step": 2, "loss": 1e-300}]
    saved.save_history(history)
    assert saved.settings() == json.loads(saved.read("settings.json")) == {"seed": 3}
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
    assert same(copy_of(parameters), copy_of(model[0]))
    assert [id(array) for array in parameters.values()] == [id(a) for a in arrays]


def test_no_temporary_file_is_left(saved):
    saved.save_history([])
    assert {path.name for path in saved.folder.iterdir()} == {
        "settings.json",
        "history.json",
        "checkpoint.safetensors",
        ".lock",
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
@pytest.mark.parametrize("folder", ["nowhere", "file"])
def test_a_missing_file_is_named(tmp_path, folder, read):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match=r"json: expected the file of a run, found no"):
        read(Run(tmp_path / folder))


@pytest.mark.parametrize(
    "content", [b"", b'{"seed": 3', b"seed: 3", b'{"a": "\xff"}', b"[" * 10**5]
)
def test_unreadable_json_is_named(saved, content):
    (saved.folder / "settings.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"settings\.json: expected whole JSON, got: "):
        saved.settings()


def test_a_missing_checkpoint_is_named(tmp_path, rng):
    with pytest.raises(ValueError, match="safetensors: expected the file of a run, found none"):
        Run(tmp_path).load_checkpoint(*fresh(rng))


@pytest.mark.parametrize("share", [0, 0.01, 0.3, 0.6, 0.9, 0.999])
def test_a_checkpoint_cut_short_is_named_and_nothing_is_copied(saved, checkpoint, rng, share):
    content = checkpoint.read_bytes()
    checkpoint.write_bytes(content[: int(share * len(content))])
    assert_not_loaded(saved, "expected a whole safetensors file, got: ", *fresh(rng))


@pytest.mark.parametrize(
    "change, message",
    [
        (
            lambda arrays: {"a.weight": arrays["a.weight"]},
            r"missing none; unknown .*parameters\.b$",
        ),
        (lambda arrays: arrays | {"c": np.ones(2)}, r"missing .*parameters\.c; unknown none$"),
        (lambda arrays: arrays | {"b": np.ones((4, 1))}, r"b: expected shape \(4, 1\), got \(4,\)"),
    ],
)
@pytest.mark.parametrize("with_optimizer", [False, True])
def test_a_checkpoint_of_another_model_is_named_and_nothing_is_copied(
    saved, rng, change, message, with_optimizer
):
    parameters = change(draw(rng))
    assert_not_loaded(saved, message, parameters, Adam(parameters) if with_optimizer else None)


@pytest.mark.parametrize(
    "metadata", [None, {}, {"steps": "2"}, {"run": "2"}, {"run": '{"steps": 2}'}]
)
def test_a_file_without_a_checksum_is_named(saved, model, checkpoint, metadata):
    save_file(model[0], checkpoint, metadata)
    assert_not_loaded(saved, "checkpoint.*: expected a checksum, found no", *model)


def test_a_checkpoint_of_which_one_byte_is_another_is_refused(saved, model, checkpoint, rng):
    content = checkpoint.read_bytes()
    for place in rng.choice(len(content), 200, replace=False):
        damaged = bytearray(content)
        damaged[place] ^= 1 << rng.integers(8)
        checkpoint.write_bytes(damaged)
        other = fresh(rng)
        before = copy_of(*other)
        try:
            saved.load_checkpoint(*other)
        except ValueError as error:
            assert str(checkpoint) in str(error)
            assert same(copy_of(*other), before)
        else:  # it was a space, or the like, between the names
            assert same(copy_of(*other), copy_of(*model))


@pytest.mark.parametrize("size", [1, 40, 400])
def test_a_checkpoint_that_ends_in_zeros_is_refused(saved, checkpoint, rng, size):
    checkpoint.write_bytes(checkpoint.read_bytes()[:-size] + bytes(size))
    with pytest.raises(ValueError, match="expected"):
        saved.load_checkpoint(*fresh(rng))


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex128])
def test_a_checkpoint_of_another_dtype_is_named_and_nothing_is_copied(saved, rng, dtype):
    parameters = draw(rng)
    parameters["b"] = parameters["b"].astype(dtype)
    assert_not_loaded(saved, f"b: expected dtype {np.dtype(dtype)}, got float64", parameters)


LAYOUTS = {
    "of single precision": lambda array: array.astype(np.float32),
    "Fortran": np.asfortranarray,
    "transposed": lambda array: array.swapaxes(0, -1),
    "every other": lambda array: array[..., ::2],
    "reversed": lambda array: array[::-1],
    "of the other byte order": lambda array: array.astype(array.dtype.newbyteorder("S")),
    "of no axis": lambda array: array[0, 0, 0, ...],
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_an_array_comes_back_however_it_lies_in_memory(tmp_path, rng, layout):
    parameters = {"a": layout(rng.normal(size=(3, 4, 5)))}
    run = Run(tmp_path)
    run.save_checkpoint(parameters, Adam(parameters))
    loaded = {"a": np.full_like(parameters["a"], 7)}
    run.load_checkpoint(loaded)
    assert np.array_equal(loaded["a"], parameters["a"])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(
    "place", ["parameters", "optimizer.first_moment", "optimizer.second_moment"]
)
def test_numbers_that_are_not_finite_are_not_saved(saved, model, checkpoint, place, bad):
    earlier = checkpoint.read_bytes()
    parameters, optimizer = model
    averages = {f"optimizer.{name}": arrays for name, arrays in optimizer.averages.items()}
    ({"parameters": parameters} | averages)[place]["b"][2] = bad
    with pytest.raises(ValueError, match=rf"{place}\.b: expected finite numbers to save, got NaN"):
        saved.save_checkpoint(*model)
    assert checkpoint.read_bytes() == earlier


@pytest.mark.parametrize(
    "metadata, message",
    [
        ("[" * 100_000, "expected a checksum, found none"),
        ("[1]", "expected a checksum, found none"),
        ('{"sha256": "0", "steps": 2, "files": 3}', "numbers that fit their checksum"),
    ],
)
def test_crafted_metadata_are_named(saved, model, checkpoint, metadata, message):
    save_file(dict(saved.arrays()), checkpoint, {"run": metadata})
    assert_not_loaded(saved, message, *model)


@pytest.mark.parametrize(
    "value, steps, message",
    [
        (np.nan, 2, "b: expected finite numbers, got others"),
        (1.0, None, "expected the number of steps, got None"),
        (1.0, -1, "expected the number of steps, got -1"),
        (1.0, "2", "expected the number of steps, got '2'"),
        (1.0, "two", "expected the number of steps, got 'two'"),
    ],
)
def test_crafted_numbers_are_named_whoever_loads_them(
    saved, model, checkpoint, value, steps, message
):
    arrays = dict(saved.arrays()) | {"parameters.b": np.full(4, value)}
    checkpoint.write_bytes(to_safetensors(arrays, steps))
    assert_not_loaded(saved, message, *model)
    assert_not_loaded(saved, message, model[0])


@pytest.mark.parametrize("files", [3, [], {}, {"settings.json": None}, {"settings.json": ["0"]}])
def test_crafted_checksums_of_files_are_named(saved, checkpoint, files):
    checkpoint.write_bytes(to_safetensors(dict(saved.arrays()), 2, files=files))
    with pytest.raises(ValueError, match="expected the (checksums of the|file that checkpoint)"):
        saved.check_files()


def test_a_folder_that_cannot_be_written_is_named_without_the_temporary_file(saved, monkeypatch):
    def refuse(path, *_, **__):
        raise OSError(30, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(OSError) as error:
        write_atomically(saved.folder / "history.json", b"[]")
    assert "part" not in str(error.value) and error.value.filename.endswith("history.json")


@pytest.mark.skipif(os.name != "posix", reason="a folder is synced on POSIX")
def test_the_name_of_a_file_is_synced_after_its_content(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync

    def note(file):
        synced.append(stat.S_ISDIR(os.fstat(file).st_mode))
        fsync(file)

    monkeypatch.setattr(os, "fsync", note)
    write_atomically(tmp_path / "file", b"new")
    assert synced == [False, True]


@pytest.mark.parametrize("owner, failing", [(os, "fsync"), (Path, "replace"), (Path, "open")])
def test_a_write_that_fails_leaves_the_old_file_whole(
    saved, model, checkpoint, monkeypatch, owner, failing
):
    def fail(*_, **__):
        raise OSError("no space left")

    earlier = checkpoint.read_bytes()
    names = set(saved.folder.iterdir())
    model[1].step({name: np.ones_like(array) for name, array in model[0].items()})
    with monkeypatch.context() as patch:
        patch.setattr(owner, failing, fail)
        with pytest.raises(OSError, match="no space left.*checkpoint.safetensors"):
            saved.save_checkpoint(*model)
    assert checkpoint.read_bytes() == earlier
    assert set(saved.folder.iterdir()) == names


def test_a_write_cut_short_never_shows_in_the_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    seen = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (seen.append(path.read_bytes()), fsync(file)))
    write_atomically(path, b"new")
    assert seen in ([b"old"], [b"old", b"new"])  # the second is the folder's
    assert path.read_bytes() == b"new"


# Loading runs no code

LOAD = """
import sys
import numpy as np
from transformer_core.optim import Adam
from transformer_core.training import Run

run = Run(sys.argv[1])
parameters = {"a.weight": np.zeros((2, 3)), "b": np.zeros(4)}

def load():
    run.settings(), run.history(), run.load_checkpoint(parameters, Adam(parameters))

def refuse(event, arguments):
    if event in CODE:
        raise SystemExit(f"{event}{arguments}")

CODE = {"exec", "compile", "import", "pickle.find_class", "marshal.loads"}
CODE |= {"os.system", "os.exec", "subprocess.Popen"}
load()  # imports what it needs
sys.addaudithook(refuse)
load()
"""


def test_loading_runs_no_code(saved):
    saved.save_history([])
    subprocess.run([sys.executable, "-c", LOAD, saved.folder], cwd=ROOT, check=True)


class Harmful:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["checkpoint.safetensors", "settings.json"])
def test_a_pickle_is_refused_and_not_opened(saved, model, tmp_path, name):
    content = pickle.dumps(Harmful(tmp_path / "harm"))
    (saved.folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name}: expected (a )?whole"):
        saved.settings()
        saved.load_checkpoint(*model)
    assert not (tmp_path / "harm").exists()
    pickle.loads(content)
    assert (tmp_path / "harm").exists()


# What a folder may hold


@pytest.mark.parametrize(
    "settings, files",
    [
        ({"seed": np.int64(1)}, {"a": b"1"}),
        ({"rate": float("inf")}, {"a": b"1"}),
        ({}, {"a": b"1", "../b": b"2"}),
        ({}, {"a": b"1", "c/b": b"2"}),
        ({}, {"a": b"1", "..": b"2"}),
        ({}, {"a": b"1", "": b"2"}),
    ],
)
def test_what_cannot_be_kept_is_named_and_leaves_no_folder(tmp_path, settings, files):
    with pytest.raises(ValueError, match="^(settings: expected what|files: expected)"):
        Run(tmp_path / "run").create(settings, files)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_left_before_its_settings_may_be_taken_again(tmp_path, monkeypatch):
    run = Run(tmp_path / "run")

    def killed(path, content):
        write_atomically(path, content)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("transformer_core.training.run.write_atomically", killed)
        with pytest.raises(KeyboardInterrupt):
            run.create({"seed": 1}, {"words": b"one"})
    assert run.read("words") == b"one"
    run.create({"seed": 2}, {"words": b"two"})
    assert (run.settings(), run.read("words")) == ({"seed": 2}, b"two")


@pytest.mark.parametrize("history", [{}, [1, 2], [{"loss": 1.0}], [{"step": 2}], [{"step": 1}] * 2])
def test_a_history_of_other_steps_is_named(saved, history):
    (saved.folder / "history.json").write_text(json.dumps(history))
    with pytest.raises(ValueError, match="history.json: expected one record for each"):
        saved.history()


# One at a time


def test_a_run_is_worked_on_by_one_alone(saved):
    with saved.lock():
        with pytest.raises(ValueError, match="first: expected a run that nobody works"):
            with Run(saved.folder).lock():
                pass
    with Run(saved.folder).lock():
        pass


def test_a_lock_ends_with_its_process_however_it_ends(saved):
    script = (
        "import os, sys\nfrom transformer_core.training import Run\n"
        "with Run(sys.argv[1]).lock():\n print(flush=True)\n input()\n"
    )
    arguments = [sys.executable, "-c", script, str(saved.folder)]
    with subprocess.Popen(
        arguments, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        with pytest.raises(ValueError, match="in the hands of another process"):
            with saved.lock():
                pass
        process.kill()
    with saved.lock():
        pass


def test_what_a_killed_process_left_half_written_goes(saved):
    (saved.folder / ".history.json.77.part").write_bytes(b"[")
    with saved.lock():
        assert not list(saved.folder.glob("*part"))


def test_one_of_many_that_create_a_run_at_once_gets_it(tmp_path):
    def create(number):
        try:
            Run(tmp_path / "run").create({"number": number}, {"file": b"%d" % number})
        except ValueError as error:
            return str(error)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(create, range(24)))
    (winner,) = [number for number, answer in enumerate(answers) if answer is None]
    run = Run(tmp_path / "run")
    assert run.settings() == {"number": winner}
    assert run.read("file") == b"%d" % winner
    assert all("run: expected a " in answer for answer in answers if answer)
