"""A folder with one training run, of which each file is whole at any time."""

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from transformer_core.foundation.checks import check_array, check_names
from transformer_core.foundation.names import check_fit
from transformer_core.optim.optimizer import Optimizer

CHECKPOINT = "checkpoint.safetensors"
LOCK = ".lock"


class Run:
    """A training run on disk.

    ``settings.json`` says how it was started, ``history.json`` holds one record a step, and
    ``checkpoint.safetensors`` the parameters and the optimiser's state, with a checksum.

    Parameters
    ----------
    folder : str or Path

    Raises
    ------
    ValueError
        If it is no path, or an empty one.
    """

    def __init__(self, folder: str | Path):
        if not isinstance(folder, (str, Path)) or not str(folder):
            raise ValueError(f"folder: expected a path, got {folder!r}")
        self.folder = Path(folder)

    def create(self, settings: dict, files: dict[str, bytes] | None = None) -> None:
        """Make the folder and write the settings, after everything else.

        A folder that was left before its settings were written may be taken again.

        Parameters
        ----------
        settings : dict
        files : dict of str to bytes, optional
            More to keep, by their names.

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
        in_use = f"{self.folder}: expected a new or empty folder, got one in use"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            found = {path.name for path in self.folder.iterdir()}
            if found and LOCK not in found:
                raise ValueError(in_use)
            with self.lock():
                if (self.folder / "settings.json").exists():
                    raise ValueError(in_use)
                for name, octets in (files or {}).items():
                    write_atomically(self.folder / name, octets)
                write_atomically(self.folder / "settings.json", content)
        except OSError as error:
            raise ValueError(
                f"{self.folder}: expected a folder to write to, got: {error}"
            ) from None

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
            yield

    def read(self, name: str) -> bytes:
        """Return the content of a file of the run; raise ``ValueError`` if there is none."""
        path = self.folder / name
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise ValueError(
                f"{path}: expected the file of a run, found none"
            ) from None

    def has(self, name: str) -> bool:
        return (self.folder / name).is_file()

    def settings(self) -> Any:
        """Return what :meth:`create` or :meth:`save_settings` wrote."""
        return read_json(self.folder / "settings.json", self.read("settings.json"))

    def save_settings(self, settings: dict) -> None:
        """Write other settings."""
        path = self.folder / "settings.json"
        write_atomically(path, to_json("settings", settings))

    def history(self) -> list[dict]:
        """Return the records that :meth:`save_history` wrote last.

        Raises
        ------
        ValueError
            If there are none, or they are not those of the steps 1, 2, ...
        """
        path = self.folder / "history.json"
        history = read_json(path, self.read(path.name))
        if not isinstance(history, list) or any(
            not isinstance(record, dict) or record.get("step") != step
            for step, record in enumerate(history, 1)
        ):
            raise ValueError(f"{path}: expected one record for each step 1, 2, ...")
        return history

    def save_history(self, history: list[dict]) -> None:
        """Write the records, one a step."""
        path = self.folder / "history.json"
        write_atomically(path, to_json("history", history))

    def steps(self) -> int | None:
        """Return the number of steps of the checkpoint; None if there is no run."""
        if not self.has("settings.json"):
            return None
        return from_safetensors(self.folder / CHECKPOINT, self.read(CHECKPOINT))[1]

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
        write_atomically(self.folder / name, checkpoint(parameters, optimizer))

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
        path = self.folder / name
        if not self.has(name):
            raise ValueError(f"{path}: expected a checkpoint, found no file")
        check_arrays(parameters)
        arrays, steps = from_safetensors(path, self.read(name))
        targets = {f"parameters.{name}": array for name, array in parameters.items()}
        if optimizer is None:
            arrays = {
                name: a for name, a in arrays.items() if name.startswith("parameters.")
            }
        else:
            targets |= {
                f"optimizer.{name}": array for name, array in optimizer.state().items()
            }
            if type(steps) is not int or steps < 0:
                raise ValueError(f"{path}: expected the number of steps, got {steps!r}")
        check_fit(str(path), arrays, targets)
        for name, target in targets.items():
            if not np.can_cast(arrays[name].dtype, target.dtype, "equiv"):
                raise ValueError(
                    f"{path}: {name}: expected dtype {target.dtype}, "
                    f"got {arrays[name].dtype}"
                )
        for name, target in targets.items():
            target[...] = arrays[name]
        if optimizer is not None:
            optimizer.steps = steps


def checkpoint(parameters: dict[str, np.ndarray], optimizer: Optimizer) -> bytes:
    """Return a checkpoint as the content of a file."""
    check_arrays(parameters)
    arrays = {f"parameters.{name}": array for name, array in parameters.items()}
    arrays |= {f"optimizer.{name}": array for name, array in optimizer.state().items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            raise ValueError(
                f"{name}: expected real numbers of at most 64 bits, got {array.dtype}"
            )
        if not np.isfinite(array).all():
            raise ValueError(
                f"{name}: expected finite numbers to save, got NaN or infinity"
            )
    return to_safetensors(arrays, optimizer.steps)


def check_arrays(parameters):
    """Raise ``ValueError`` unless parameters are arrays under their names."""
    check_names("parameters", parameters)
    for name, array in parameters.items():
        check_array(name, array)


def to_safetensors(arrays: dict[str, np.ndarray], steps: int | None = None) -> bytes:
    """Return arrays, a number of steps and the checksum of all as a safetensors file."""
    from safetensors.numpy import save

    # The library writes an array as it lies in memory (its issue 825).
    arrays = {
        name: array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        for name, array in arrays.items()
    }
    # One entry: it writes several in no fixed order.
    run = json.dumps({"sha256": checksum(arrays, steps), "steps": steps})
    return save(arrays, metadata={"run": run})


def from_safetensors(path: Path | str, content: bytes) -> tuple[dict, int | None]:
    """Return the arrays and the number of steps of a file of :func:`to_safetensors`."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(content)
    except (SafetensorError, KeyError, ValueError) as error:
        raise ValueError(
            f"{path}: expected a whole safetensors file, got: {error}"
        ) from None
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    try:
        run = json.loads(header["__metadata__"]["run"])
        expected, steps = run["sha256"], run["steps"]
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{path}: expected a checksum, found none") from None
    if checksum(arrays, steps) != expected:
        raise ValueError(f"{path}: expected numbers that fit their checksum")
    return arrays, steps


def checksum(arrays: dict[str, np.ndarray], steps: int | None) -> str:
    sha256 = hashlib.sha256(repr(steps).encode())
    for name, array in sorted(arrays.items()):
        sha256.update(repr((name, array.dtype.str, array.shape)).encode())
        sha256.update(array.data)
    return sha256.hexdigest()


def write_atomically(path: Path, content: bytes) -> None:
    """Write bytes to a file that is either the old one or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:  # name the file, whatever went wrong with it
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)


def to_json(name: str, value: object) -> bytes:
    """Return a value as the content of a JSON file; a ``ValueError`` calls it by its name."""
    try:
        return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: expected what JSON can hold, got: {error}") from None


def read_json(path: Path, content: bytes) -> Any:
    """Return the value in a JSON file; raise ``ValueError`` with its path if it is not whole."""
    try:
        return json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: expected whole JSON, got: {error}") from None
