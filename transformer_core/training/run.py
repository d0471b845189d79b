"""A folder with one training run, of which each file is whole at any time."""

import json
import os
from pathlib import Path

import numpy as np

from transformer_core.foundation.names import check_fit


class Run:
    """A training run on disk.

    ``settings.json`` says how it was started, ``history.json`` holds one record a step, and
    ``checkpoint.safetensors`` the parameters and the optimiser's state.

    Parameters
    ----------
    folder : str or Path
    """

    def __init__(self, folder):
        self.folder = Path(folder)

    def create(self, settings, files=None):
        """Make the folder and write the settings.

        Parameters
        ----------
        settings : dict
        files : dict of str to bytes, optional
            More to keep, by their names.

        Raises
        ------
        ValueError
            If the folder already holds something, or cannot be written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if any(self.folder.iterdir()):
                raise ValueError(
                    f"{self.folder}: expected a new or empty folder, got one in use"
                )
            for name, content in (files or {}).items():
                write_atomically(self.folder / name, content)
            write_atomically(self.folder / "settings.json", to_json(settings))
        except OSError as error:
            raise ValueError(
                f"{self.folder}: expected a folder to write to, got: {error}"
            ) from None

    def settings(self):
        """Return what :meth:`create` wrote."""
        return read_json(self.folder / "settings.json")

    def history(self):
        """Return the records that :meth:`save_history` wrote last."""
        return read_json(self.folder / "history.json")

    def save_history(self, history):
        """Write the records, one a step."""
        write_atomically(self.folder / "history.json", to_json(history))

    def save_checkpoint(self, parameters, optimizer):
        """Write the parameters and the optimiser's state.

        Raises
        ------
        ValueError
            If a parameter is not finite; the earlier checkpoint stays.
        """
        from safetensors.numpy import save

        for name, array in parameters.items():
            if not np.isfinite(array).all():
                raise ValueError(
                    f"{name}: expected finite numbers to save, got NaN or infinity"
                )
        arrays = {f"parameters.{name}": array for name, array in parameters.items()}
        arrays |= {
            f"optimizer.{name}": array for name, array in optimizer.state().items()
        }
        checkpoint = save(arrays, metadata={"steps": str(optimizer.steps)})
        write_atomically(self.folder / "checkpoint.safetensors", checkpoint)

    def load_checkpoint(self, parameters, optimizer=None):
        """Copy the checkpoint into ``parameters`` and, if given, into the optimiser.

        Raises
        ------
        ValueError
            If there is no checkpoint, or it is cut short, or its names or shapes do not fit.
            Nothing is copied then.
        """
        path = self.folder / "checkpoint.safetensors"
        if not path.is_file():
            raise ValueError(f"{path}: expected a checkpoint, found no file")
        arrays, metadata = read_arrays(path)
        steps = metadata.get("steps", "")
        targets = {f"parameters.{name}": array for name, array in parameters.items()}
        if optimizer is None:
            arrays = {
                name: a for name, a in arrays.items() if name.startswith("parameters.")
            }
        else:
            targets |= {
                f"optimizer.{name}": array for name, array in optimizer.state().items()
            }
            if not steps.isdecimal():
                raise ValueError(f"{path}: expected the number of steps, got {steps!r}")
        check_fit(path, arrays, targets)
        for name, target in targets.items():
            target[...] = arrays[name]
        if optimizer is not None:
            optimizer.steps = int(steps)


def read_arrays(path):
    """Return the arrays of a safetensors file, and its metadata."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}
            return arrays, file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise ValueError(
            f"{path}: expected a whole safetensors file, got: {error}"
        ) from None


def write_atomically(path, content):
    """Write bytes to a file that is either the old one or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def to_json(value):
    return (json.dumps(value, indent=1) + "\n").encode()


def read_json(path):
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"{path}: expected the file of a run, found none") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: expected whole JSON, got: {error}") from None
