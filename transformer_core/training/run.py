"""A folder with one training run, of which each file is whole at any time."""

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from transformer_core.foundation.checks import check_array, check_names
from transformer_core.foundation.files import (
    check_safetensors,
    read_json,
    read_safetensors,
    to_json,
    write_atomically,
    write_safetensors,
)
from transformer_core.foundation.names import check_fit, join, stand_in
from transformer_core.optim.optimizer import Optimizer

CHECKPOINT = "checkpoint.safetensors"
SETTINGS, HISTORY = "settings.json", "history.json"
LOCK = ".lock"


class Run:
    """A training run on disk.

    ``settings.json`` says how it was started, ``history.json`` holds one record per step, and
    ``checkpoint.safetensors`` the parameters and the optimiser's state, with a checksum of its
    own, and with those of the settings and the other files that it was computed from.

    Parameters
    ----------
    folder : str or Path
    """

    def __init__(self, folder: str | Path):
        if not isinstance(folder, (str, Path)) or not str(folder):
            raise ValueError(f"folder: expected a path, got {folder!r}")
        self.folder = Path(folder)
        self.digests: dict[str, list[str]] = {}  # what a file may be, by its name
        self.locked: os.stat_result | None = None

    def create(
        self,
        settings: dict,
        files: dict[str, bytes] | None = None,
        state: tuple[dict, Iterable] | None = None,
    ) -> None:
        """Make the folder and write the settings, after everything else.

        A folder that was left before its settings were written may be taken again.

        Parameters
        ----------
        settings : dict
        files : dict of str to bytes, optional
            More to keep, by their names.
        state : tuple, optional
            What :meth:`save_arrays` writes for 0 steps; with it, an empty history.

        Raises
        ------
        ValueError
            If the folder already holds something, or cannot be written; if JSON cannot hold the
            settings, or a name is not that of a file in the folder. Nothing is written then.
        """
        content = to_json("settings", settings)
        for name, octets in (files or {}).items():
            if Path(name).name != name or name in ("", ".."):
                raise ValueError(f"files: expected plain names, got {name!r}")
            if not isinstance(octets, bytes):
                raise ValueError(f"files: {name}: expected bytes, got {octets!r:.60}")
        contents: dict[str, Any] = dict(files or {})
        kept = contents | {SETTINGS: content}
        self.digests = {name: [digest(kept[name])] for name in sorted(kept)}
        if state is not None:
            contents[CHECKPOINT] = checkpoint(*state, 0, self.digests)
            contents[HISTORY] = to_json("history", [])
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.check_new()
            with self.lock():
                self.check_new()
                for name, octets in (contents | {SETTINGS: content}).items():  # at last
                    self.write(name, octets)
        except OSError as error:
            raise ValueError(
                f"{self.folder}: expected a folder to write to, got: {error}"
            ) from None

    def check_new(self) -> None:
        """Raise ``ValueError`` if the folder is in use, by a run or by anything else."""
        if self.folder.is_dir():
            found = {path.name for path in self.folder.iterdir()}
            if SETTINGS in found or found and LOCK not in found:
                on = "; --resume continues the run in it" if SETTINGS in found else ""
                raise ValueError(
                    f"{self.folder}: expected a new or empty folder, got one in use{on}"
                )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Work on the run alone, and without what a killed process left half written.

        The system lets go of the lock when its process ends, however that ends.

        Raises
        ------
        ValueError
            If another process, or another part of this one, works on the run.
        """
        with (self.folder / LOCK).open("ab") as file:
            try:
                if sys.platform == "win32":
                    import msvcrt

                    msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
                else:
                    import fcntl

                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                raise ValueError(
                    f"{self.folder}: expected a run that nobody works on, got one in "
                    "the hands of another process"
                ) from None
            for part in self.folder.glob(".*.part"):
                part.unlink()
            self.locked = os.fstat(file.fileno())
            try:
                yield
            finally:
                self.locked = None

    def write(self, name: str, content: bytes | Callable[[BinaryIO], object]) -> None:
        """Write a file of the run, as ``write_atomically`` does.

        Raises
        ------
        ValueError
            If the run is locked, and its folder has been moved or replaced since.
        """
        if self.locked is not None:
            try:
                here = os.path.samestat(self.locked, os.stat(self.folder / LOCK))
            except FileNotFoundError:
                here = False
            if not here:
                raise ValueError(
                    f"{self.folder}: expected the folder that was locked, which has been moved "
                    "or removed; where it is now, --resume goes on from its last checkpoint"
                )
        write_atomically(self.folder / name, content)

    def read(self, name: str) -> bytes:
        """Return the content of a file of the run; raise ``ValueError`` if there is none."""
        return self.path(name).read_bytes()

    def path(self, name: str) -> Path:
        """Return where a file of the run is; raise ``ValueError`` if there is none."""
        if not self.has(name):
            raise ValueError(
                f"{self.folder / name}: expected the file of a run, found none"
            )
        return self.folder / name

    def has(self, name: str) -> bool:
        return (self.folder / name).is_file()

    def settings(self) -> Any:
        """Return what :meth:`create` or :meth:`save_settings` wrote."""
        return read_json(self.folder / SETTINGS, self.read(SETTINGS))

    def save_settings(self, settings: dict) -> None:
        """Write other settings; the next checkpoint goes with these alone."""
        content = to_json("settings", settings)
        self.write(SETTINGS, content)
        self.digests[SETTINGS] = [digest(content)]

    def check_files(self, names: Iterable[str] = (SETTINGS,)) -> None:
        """Raise ``ValueError`` unless files are as they were when the checkpoint was saved."""
        path = self.path(CHECKPOINT)
        known = check_safetensors(path).get("files")
        if not isinstance(known, dict):
            raise ValueError(
                f"{path}: expected the checksums of the files that it was saved with, found "
                "none: train anew, an older version did not keep them"
            )
        self.digests = {name: [digest(self.read(name))] for name in sorted(names)}
        for name, (found,) in self.digests.items():
            if found not in (known.get(name) or ()):
                raise ValueError(
                    f"{self.folder / name}: expected the file that {CHECKPOINT} was saved "
                    "with, got another: put that back, or train anew with what you want to "
                    "change"
                )

    def history(self) -> list[dict]:
        """Return the records that :meth:`save_history` wrote last.

        Raises
        ------
        ValueError
            If there are none, or they are not those of the steps 1, 2, ...
        """
        path = self.folder / HISTORY
        history = read_json(path, self.read(HISTORY))
        if not isinstance(history, list) or any(
            not isinstance(record, dict) or record.get("step") != step
            for step, record in enumerate(history, 1)
        ):
            raise ValueError(f"{path}: expected one record for each step 1, 2, ...")
        return history

    def save_history(self, history: list[dict]) -> None:
        """Write the records, one per step."""
        self.write(HISTORY, to_json("history", history))

    def steps(self) -> int | None:
        """Return the number of steps of the checkpoint; None if there is no run.

        Raises
        ------
        ValueError
            If the checkpoint is damaged.
        """
        if not self.has(SETTINGS):
            return None
        return check_safetensors(self.path(CHECKPOINT))["steps"]

    def save_checkpoint(
        self,
        parameters: dict[str, np.ndarray],
        optimizer: Optimizer,
        name: str = CHECKPOINT,
    ) -> None:
        """Write the parameters and the optimiser's state.

        Raises
        ------
        ValueError
            If a number is not finite; the earlier checkpoint stays.
        """
        check_arrays(parameters)
        arrays = in_checkpoint(parameters, optimizer.averages)
        in_order = (array for _, array in sorted(arrays.items()))
        self.save_arrays(arrays, in_order, optimizer.steps, name)

    def save_arrays(
        self,
        like: dict[str, np.ndarray],
        arrays: Iterable[np.ndarray],
        steps: int,
        name: str = CHECKPOINT,
    ) -> None:
        """Write a checkpoint of arrays, of which no more than one is there at a time.

        Parameters
        ----------
        like : dict of str to ndarray
            The shapes and dtypes by the names of ``in_checkpoint``.
        arrays : iterable of ndarray
            In the order of the names.
        steps : int
        name : str
            Of the file.

        Raises
        ------
        ValueError
            As :meth:`save_checkpoint`.
        """
        files = self.digests if name == CHECKPOINT else {}
        self.write(name, checkpoint(like, arrays, steps, files))

    def load_checkpoint(
        self,
        parameters: dict[str, np.ndarray],
        optimizer: Optimizer | None = None,
        name: str = CHECKPOINT,
    ) -> None:
        """Copy the checkpoint into ``parameters`` and, if given, into the optimiser.

        Raises
        ------
        ValueError
            If there is no checkpoint, it is cut short or changed, or its names, shapes or dtypes
            do not fit. Nothing is copied then.
        """
        check_arrays(parameters)
        averages = {} if optimizer is None else optimizer.averages
        targets = in_checkpoint(parameters, averages)
        kind = "parameters." if optimizer is None else ""
        steps = self.check_checkpoint(targets, name, kind)
        for key, array in self.arrays(name, kind):
            targets[key][...] = array
        if optimizer is not None:
            optimizer.steps = steps

    def arrays(
        self, name: str = CHECKPOINT, kind: str = ""
    ) -> Iterator[tuple[str, np.ndarray]]:
        """Yield those arrays of a checkpoint whose names begin so, in order, one at a time."""
        for key, array in read_safetensors(self.path(name)):
            if key.startswith(kind):
                yield key, array

    def check_checkpoint(
        self, like: dict[str, np.ndarray], name: str = CHECKPOINT, kind: str = ""
    ) -> int:
        """Return the steps of a checkpoint whose :meth:`arrays` fit these, one at a time.

        Raises
        ------
        ValueError
            As :meth:`load_checkpoint`.
        """
        path = self.path(name)
        steps = check_safetensors(path)["steps"]
        if type(steps) is not int or steps < 0:
            raise ValueError(f"{path}: expected the number of steps, got {steps!r}")
        found, infinite = {}, set()
        for key, array in self.arrays(name, kind):
            found[key] = stand_in(array)
            if not np.isfinite(array).all():
                infinite.add(key)
        check_fit(str(path), found, like)
        for key, target in like.items():
            if not np.can_cast(found[key].dtype, target.dtype, "equiv"):
                raise ValueError(
                    f"{path}: {key}: expected dtype {target.dtype}, "
                    f"got {found[key].dtype}"
                )
            if key in infinite:
                raise ValueError(f"{path}: {key}: expected finite numbers, got others")
        return steps


def digest(content: bytes) -> str:
    """Return the SHA-256 checksum of what a file holds."""
    return hashlib.sha256(content).hexdigest()


def in_checkpoint(parameters: dict, averages: dict) -> dict[str, Any]:
    """Return the arrays of a training by their names in a checkpoint."""
    return join({"parameters": parameters, "optimizer": join(averages)})


def checkpoint(
    like: dict[str, np.ndarray], arrays: Iterable[np.ndarray], steps: int, files: dict
) -> Callable[[BinaryIO], None]:
    """Return what writes a checkpoint into a file; ``files`` are what it goes with."""
    for name, array in like.items():
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            raise ValueError(
                f"{name}: expected real numbers of at most 64 bits, got {array.dtype}"
            )

    def finite():
        for name, array in zip(sorted(like), arrays, strict=True):
            if not np.isfinite(array).all():
                raise ValueError(
                    f"{name}: expected finite numbers to save, got NaN or infinity"
                )
            yield array

    others: dict[str, Any] = {"files": files} if files else {}
    return partial(write_safetensors, like=like, arrays=finite(), steps=steps, **others)


def check_arrays(parameters):
    """Raise ``ValueError`` unless parameters are arrays under their names."""
    check_names("parameters", parameters)
    for name, array in parameters.items():
        check_array(name, array)
