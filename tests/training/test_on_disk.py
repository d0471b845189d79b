"""Trainings on disk, by a recipe that takes no time."""

import json
import os
import shutil
import signal
import sys
import threading
from contextlib import contextmanager
from functools import cache
from time import perf_counter

import numpy as np
import pytest
import tqdm

from transformer_core import __version__
from transformer_core.foundation.files import to_safetensors
from transformer_core.optim import Adam, warmup_stable_decay
from transformer_core.ranks import on_threads
from transformer_core.training import Recipe, Run, Training, on_disk, train_on_disk
from transformer_core.training.recipe import Deadline, load_settings

DEFAULTS = {
    "steps": 12,
    "minutes": None,
    "learning_rate": 0.1,
    "sizes": {"width": 3},
    "max_norm": None,
    "seed": 0,
    "checkpoint_every": 5,
    "warmup": "none",
}


class Interrupted(Exception):
    """An end that nobody catches, as of a killed process."""


def kill(*_):
    raise Interrupted


def noisy(at=None, act=None):
    """A recipe whose every step depends on its number and its generator.

    At one step, ``act`` is called in the midst of it.
    """

    def training(settings, files, communicator):
        x = np.zeros(settings["sizes"]["width"])
        optimizer = Adam({"x": x}, settings["learning_rate"])

        def loss_and_gradients(target, rng):
            if optimizer.steps + 1 == at:
                act()
            return float(((x - target) ** 2).mean()), {"x": x - target + rng.normal(size=x.shape)}

        def batches(first):
            return ((np.array(step % 7.0),) for step in range(first, 10**6))

        def schedule(step, steps):
            warmup = steps // 2 if settings["warmup"] == "long" else 2
            peak = settings["learning_rate"]
            return warmup_stable_decay(step, steps, peak, warmup, steps // 3)

        return Training(loss_and_gradients, optimizer, batches, schedule, lambda: [("x", x.sum())])

    return Recipe("noisy", DEFAULTS, ("steps", "minutes"), training)


RECIPE = noisy()


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def run_of(folder, recipe=RECIPE, resume=False, **given):
    train_on_disk(recipe, folder, given, resume)
    return files(folder)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run as the recipe has it, which stays as it is."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    run_of(folder)
    return folder


@pytest.fixture(scope="module")
def whole(finished):
    return files(finished)


@pytest.fixture(scope="module")
def longer(tmp_path_factory):
    """What a run of so many steps from the start has come to."""
    return cache(lambda steps: run_of(tmp_path_factory.mktemp("longer") / "run", steps=steps))


@pytest.fixture
def copied(finished, folder):
    """A finished run, to do with as one likes."""
    return shutil.copytree(finished, folder)


@contextmanager
def refused(folder, message):
    """Expect an error, and the folder as it was."""
    before = files(folder)
    with pytest.raises(ValueError, match=message):
        yield
    assert files(folder) == before


def press_ctrl_c():
    signal.raise_signal(signal.SIGINT)


# What is on disk


def test_a_run_holds_its_settings_and_who_made_it(folder):
    run_of(folder, seed=3)
    who = {"model": "noisy", "version": __version__}
    assert Run(folder).settings() == DEFAULTS | who | {"seed": 3}


def test_of_the_lengths_only_the_one_that_is_given_holds(folder):
    run_of(folder, minutes=1e-4)
    settings = Run(folder).settings()
    assert (settings["steps"], settings["minutes"]) == (None, 1e-4)


@pytest.mark.parametrize(
    "given, message",
    [
        ({"learning_rate": np.inf}, "learning_rate: expected a finite number, got inf"),
        ({"learning_rate": 0.0}, "learning_rate: expected a positive number, got 0.0"),
        ({"steps": 0}, "steps: expected a whole number of at least 1, got 0"),
        ({"minutes": np.nan}, "minutes: expected a finite number, got nan"),
        ({"minutes": -1.0}, "minutes: expected a positive number, got -1.0"),
        ({"minutes": 1e308}, "minutes: expected a positive number, got 1e.308"),
        ({"step": 3}, "settings: expected some of steps, .*, got step"),
        ({"steps": 3, "minutes": 1.0}, "settings: expected one of steps, minutes"),
        ({"max_norm": "abc"}, "max_norm: expected a positive number, got abc"),
        ({"sizes": {"depth": 3}}, "settings: expected some of width, got depth"),
        ({"sizes": 3}, "sizes: expected a setting such as {'width': 3}, got 3"),
    ],
)
def test_settings_that_do_not_hold_leave_no_folder(folder, given, message):
    with pytest.raises(ValueError, match=message):
        run_of(folder, **given)
    assert not folder.exists()


def test_a_module_that_is_missing_is_missed_before_there_is_a_folder(folder, monkeypatch):
    for module in ("tqdm", "safetensors"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            with pytest.raises(ModuleNotFoundError):
                run_of(folder)
        assert not folder.exists()


# Stopped and resumed


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(step, marks=[pytest.mark.thorough] * (step not in (1, 5, 6, 9, 12)))
        for step in range(1, 13)
    ],
)
def test_ctrl_c_ends_a_run_after_its_step_and_it_resumes_bit_by_bit(folder, whole, step):
    with pytest.raises(KeyboardInterrupt):
        run_of(folder, noisy(step, press_ctrl_c))
    assert len(Run(folder).history()) == Run(folder).steps() == step
    assert run_of(folder, resume=True) == whole
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_while_a_run_is_made_waits_until_it_is(folder, whole, monkeypatch):
    create = Run.create

    def interrupted(*arguments):
        press_ctrl_c()
        create(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "create", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_of(folder)
    assert Run(folder).steps() == 1
    assert run_of(folder, resume=True) == whole


def test_ctrl_c_before_a_run_is_made_leaves_nothing(folder):
    recipe = RECIPE._replace(prepare=lambda settings: press_ctrl_c())
    with pytest.raises(KeyboardInterrupt):
        run_of(folder, recipe)
    assert not folder.exists()
    assert Run(folder).steps() is None


def test_a_second_ctrl_c_ends_a_run_at_once(folder, whole):
    def press_twice():
        press_ctrl_c()
        press_ctrl_c()

    with pytest.raises(KeyboardInterrupt):
        run_of(folder, noisy(8, press_twice))
    assert Run(folder).steps() == 5
    assert run_of(folder, resume=True) == whole


@pytest.mark.parametrize("step", [1, 3, 6, 12])
def test_a_run_that_was_killed_resumes_from_its_last_checkpoint(folder, whole, step):
    with pytest.raises(Interrupted):
        run_of(folder, noisy(step, kill))
    assert run_of(folder, resume=True) == whole


@pytest.mark.slow
@pytest.mark.parametrize("writes", range(12))
def test_a_run_that_was_killed_at_any_write_resumes_or_starts_again(
    folder, whole, monkeypatch, writes
):
    from transformer_core.training import run

    write, left = run.write_atomically, [None] * writes

    def killed(path, content):
        if not left:
            kill()
        left.pop()
        write(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(run, "write_atomically", killed)
        if writes < 11:
            with pytest.raises(Interrupted):
                run_of(folder)
        else:
            run_of(folder)
    begun = (folder / "settings.json").exists()
    assert begun == (writes >= 3)
    assert run_of(folder, resume=begun) == whole


@pytest.mark.skipif(os.name == "nt", reason="limits of POSIX")
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("size, file", [(10, "history.json"), (2000, "before_decay")])
def test_a_disk_that_is_full_keeps_the_checkpoint_before(tmp_path, folder, ranks, size, file):
    """From step 8 on, no file may be longer than a limit."""
    import resource

    large = {"sizes": {"width": 300}}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))

    try:
        with pytest.raises(OSError, match=f"File too large: .*{file}"):
            on_ranks(ranks, folder, noisy(8, fill), **large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert Run(folder).steps() == 5
    assert not list(folder.glob(".*.part"))
    whole = run_of(tmp_path / "whole", **large)
    assert run_of(folder, resume=True) == whole


def test_an_error_in_training_leaves_the_losses_before_it(folder):
    def fail():
        raise ValueError("too bad")

    with pytest.raises(ValueError, match="too bad"):
        run_of(folder, noisy(8, fail))
    assert len(Run(folder).history()) == 7


def test_a_history_shorter_than_the_checkpoint_is_refused(copied, folder):
    Run(folder).save_history(Run(folder).history()[:11])
    with refused(folder, "history of the 12 steps .*, got 11"):
        run_of(folder, resume=True)


def test_a_run_in_the_hands_of_another_is_not_touched(copied, folder):
    with Run(folder).lock(), refused(folder, "expected a run that nobody works on"):
        run_of(folder, resume=True)


# Resumed with options


@pytest.mark.parametrize(
    "given, message",
    [
        ({"seed": 1}, "seed: expected 0, as .*run was started with, got 1"),
        ({"learning_rate": 0.2}, "learning_rate: expected 0.1, as .*, got 0.2"),
        ({"minutes": 2.0}, "minutes: expected none, as .*, got 2.0"),
        ({"steps": 0}, "steps: expected a whole number of at least 1, got 0"),
        ({"steps": 6}, r"steps: expected 12, got 6: the learning rate of the \d+ steps"),
        ({"steps": 8}, r"steps: expected 12, got 8: the learning rate of the \d+ steps"),
    ],
)
def test_an_option_that_contradicts_the_run_is_refused(copied, folder, given, message):
    with refused(folder, message):
        run_of(folder, resume=True, **given)


def test_options_that_the_run_was_started_with_may_be_given_again(folder, whole):
    with pytest.raises(KeyboardInterrupt):
        run_of(folder, noisy(3, press_ctrl_c))
    assert run_of(folder, resume=True, seed=0, steps=12) == whole


@pytest.mark.parametrize("stop", [2, 8, 9, 10, None])
@pytest.mark.parametrize("steps", [13, 24])
def test_an_extended_run_equals_one_that_was_as_long_from_the_start(
    finished, folder, longer, stop, steps
):
    """Of 12 steps 4 fall: after the ninth, the tenth has a lower rate."""
    if stop:
        with pytest.raises(KeyboardInterrupt):
            run_of(folder, noisy(stop, press_ctrl_c))
    else:
        shutil.copytree(finished, folder)
    assert run_of(folder, resume=True, steps=steps) == longer(steps)


@pytest.mark.parametrize("stop, steps", [(5, 11), (2, 6)])
def test_a_run_may_be_made_shorter_where_it_makes_no_difference(tmp_path, folder, stop, steps):
    with pytest.raises(KeyboardInterrupt):
        run_of(folder, noisy(stop, press_ctrl_c))
    shorter = run_of(tmp_path / "shorter", steps=steps)
    assert run_of(folder, resume=True, steps=steps) == shorter


def test_a_run_whose_rate_follows_from_its_length_at_once_cannot_be_extended(folder):
    assert "before_decay.safetensors" not in run_of(folder, warmup="long")
    with refused(folder, "steps: expected 12, got 24: the learning"):
        run_of(folder, resume=True, steps=24)


def test_a_run_for_a_time_is_extended_only_before_its_first_step(folder):
    run_of(folder, minutes=1e-4)
    with refused(folder, "minutes: expected 0.0001, got 0.01: the le"):
        run_of(folder, resume=True, minutes=0.01)
    with refused(folder, "steps: expected none, .*, got 3"):
        run_of(folder, resume=True, steps=3)


def test_an_extension_that_was_killed_can_be_taken_up(copied, folder, longer, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Run, "save_settings", kill)
        with pytest.raises(Interrupted):
            run_of(folder, resume=True, steps=24)
    assert run_of(folder, resume=True, steps=24) == longer(24)


# Many ranks


def on_ranks(size, folder, recipe=RECIPE, resume=False, **given):
    """Train on ranks, of which the first alone is told the folder; return what each had."""

    def work(communicator):
        own = folder if communicator.rank == 0 else folder / "none" / "at all"
        return train_on_disk(recipe, own, given, resume, communicator).optimizer

    optimizers = on_threads(size, work)
    assert not (folder / "none").exists()
    return files(folder), optimizers


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_the_first_rank_writes_the_run_and_all_hold_what_it_says(folder, whole, ranks):
    written, optimizers = on_ranks(ranks, folder)
    assert written == whole
    first, *others = (o.parameters["x"].tolist() for o in optimizers)
    assert all(other == first for other in others)


@pytest.fixture
def ctrl_c(monkeypatch):
    """Ctrl-C for a rank that is a thread: what its own list gets."""
    came = threading.local()

    @contextmanager
    def put_off():
        came.here = []
        yield came.here

    monkeypatch.setattr(on_disk, "ctrl_c_put_off", put_off)
    return lambda: came.here.append(signal.SIGINT)


@pytest.mark.parametrize(
    "pressed, ranks",
    [
        pytest.param(pressed, ranks, marks=[pytest.mark.thorough] * (pressed != ranks // 2))
        for pressed in (0, 1, 2)
        for ranks in (1, 2, 4)
    ],
)
def test_ctrl_c_on_any_rank_ends_all_after_the_same_step(folder, whole, ctrl_c, pressed, ranks):
    turns = []  # of the ranks in step 7, in any order

    def press():
        turns.append(1)
        if len(turns) == pressed + 1:
            ctrl_c()

    with pytest.raises(KeyboardInterrupt):
        on_ranks(3, folder, noisy(7, press))
    assert len(Run(folder).history()) == Run(folder).steps() == 7
    assert on_ranks(ranks, folder, resume=True)[0] == whole


def test_the_clock_of_the_first_rank_ends_all_after_the_same_step(folder, monkeypatch):
    seconds, fast = perf_counter, set()  # threads whose clock is too fast

    def clock():
        return seconds() * (9 if threading.get_ident() in fast else 1)

    def training(settings, files, communicator):
        if communicator.rank:
            fast.add(threading.get_ident())
        return RECIPE.training(settings, files, communicator)

    monkeypatch.setattr("transformer_core.training.recipe.perf_counter", clock)
    recipe = RECIPE._replace(training=training)
    _, optimizers = on_ranks(3, folder, recipe, minutes=0.005)
    history = Run(folder).history()
    assert {o.steps for o in optimizers} == {len(history)}
    assert history[-1]["seconds"] >= 0.3 > history[-2]["seconds"]


@pytest.mark.parametrize("step", [1, 6, 12])
def test_a_rank_that_fails_ends_all_and_the_run_resumes(folder, whole, step):
    turns = []

    def fail():
        turns.append(1)
        if len(turns) == 2:
            kill()

    with pytest.raises(Interrupted):
        on_ranks(2, folder, noisy(step, fail))
    assert on_ranks(3, folder, resume=True)[0] == whole


def test_what_the_first_rank_finds_wrong_ends_all(folder):
    on_ranks(2, folder)
    with refused(folder, "run: expected a new or empty folder, got"):
        on_ranks(2, folder)
    with refused(folder, "seed: expected 0, as .*, got 1"):
        on_ranks(2, folder, resume=True, seed=1)


def test_the_first_rank_alone_shows_the_progress(folder, monkeypatch):
    hidden, bar = [], tqdm.tqdm

    def noting(**settings):
        hidden.append(settings.get("disable", False))
        return bar(**settings)

    monkeypatch.setattr(tqdm, "tqdm", noting)
    on_ranks(3, folder)
    assert sorted(hidden) == [False, True, True]


# Damaged settings


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda s: [], "expected a run of 'train noisy', got other settings"),
        (lambda s: s | {"model": "other"}, "run of 'train noisy', got one of 'train other'"),
        (
            lambda s: {"model": "noisy", "seed": 0, "steps": 12},
            "settings of version .*, got those of an older one: missing checkpoint.*; unknown none",
        ),
        (lambda s: s | {"tempo": 3}, "settings of .*: missing none; unknown tempo"),
        (lambda s: s | {"seed": "0"}, "seed: expected a setting such as 0, got '0'"),
        (lambda s: s | {"seed": None}, "seed: expected a setting such as 0, got None"),
        (lambda s: s | {"seed": True}, "seed: expected a setting such as 0, got True"),
        (lambda s: s | {"sizes": {"depth": 1}}, "sizes: expected a setting such as {'width'"),
        (lambda s: s | {"sizes": {}}, r"settings.json: expected the file that checkpoint"),
        (lambda s: s | {"sizes": {"width": 4}}, "settings.json: expected the file that ch"),
        (lambda s: s | {"learning_rate": 0.2}, "settings.json: expected the file that ch"),
        (lambda s: s | {"seed": 1}, "settings.json: expected the file that checkpoint"),
        (lambda s: s | {"steps": 24}, "settings.json: expected the file that checkpoint"),
        (lambda s: s | {"max_norm": "abc"}, "max_norm: expected a positive number, got abc"),
        (lambda s: s | {"sizes": 3}, "sizes: expected a setting such as {'width': 3}"),
        (lambda s: s | {"max_norm": [1]}, "max_norm: expected a setting such as None"),
        (lambda s: s | {"steps": "12"}, "steps: expected a setting such as 12"),
        (
            lambda s: s | {"checkpoint_every": 0},
            "checkpoint_every: expected a whole number of at least 1, got 0",
        ),
        (lambda s: s | {"steps": None}, "expected one of steps, minutes"),
    ],
)
def test_damaged_settings_are_named(copied, folder, damage, message):
    path = folder / "settings.json"
    path.write_text(json.dumps(damage(json.loads(path.read_text()))))
    with refused(folder, message):
        run_of(folder, resume=True)


def test_a_run_that_is_older_than_a_setting_of_a_part_is_read(copied, folder):
    newer = DEFAULTS | {"sizes": {"width": 3, "depth": 1}}
    assert load_settings(Run(folder), RECIPE._replace(defaults=newer))["sizes"] == {"width": 3}


def test_a_run_that_is_not_tied_to_its_settings_is_refused(copied, folder):
    older = to_safetensors(dict(Run(folder).arrays()), 12)  # without the checksums
    (folder / "checkpoint.safetensors").write_bytes(older)
    with pytest.raises(ValueError, match="expected the checksums of the files .* train anew"):
        run_of(folder, resume=True)


def test_a_run_whose_folder_is_moved_does_not_overwrite_another(tmp_path, folder, finished, whole):
    def move():
        folder.rename(tmp_path / "moved")
        shutil.copytree(finished, folder)

    with pytest.raises(ValueError, match="run: expected the folder that was locked, which"):
        run_of(folder, noisy(7, move))
    assert files(folder) == whole
    assert run_of(tmp_path / "moved", resume=True) == whole


def test_a_second_start_says_how_to_go_on(copied, folder):
    prepared = []
    with pytest.raises(ValueError, match="got one in use; --resume continues the run in it"):
        run_of(folder, RECIPE._replace(prepare=prepared.append))
    assert not prepared


def test_a_run_of_another_version_is_read_and_does_not_go_on(copied, folder, monkeypatch):
    monkeypatch.setattr(on_disk, "__version__", "9.9")
    assert load_settings(Run(folder), RECIPE)["version"] == __version__
    with refused(folder, "a run of version 9.9 to go on with, got one of"):
        run_of(folder, resume=True)


def test_a_history_without_times_is_named(folder):
    run_of(folder, minutes=1e-4)
    Run(folder).save_history([{"step": r["step"]} for r in Run(folder).history()])
    with pytest.raises(ValueError, match="history: expected the seconds of each step"):
        run_of(folder, resume=True)


def test_a_time_may_be_longer_than_any_training():
    assert Deadline(1e305)([]) == 2**53
