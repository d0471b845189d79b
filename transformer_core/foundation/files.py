"""Files that are whole or not there: JSON, and arrays with their checksum."""

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np


def to_safetensors(
    arrays: dict[str, np.ndarray], steps: int | None = None, **others: Any
) -> bytes:
    """Return arrays, a number of steps, what else goes with them, and the checksum of all.

    The file is of safetensors; JSON has to hold the others.
    """
    from safetensors.numpy import save

    # The library writes an array as it lies in memory (its issue 825).
    arrays = {
        name: array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        for name, array in arrays.items()
    }
    # One entry: it writes several in no fixed order.
    run = json.dumps(
        {"sha256": checksum(arrays, steps, others), "steps": steps} | others
    )
    return save(arrays, metadata={"run": run})


def from_safetensors(path: Path | str, content: bytes) -> tuple[dict, dict]:
    """Return the arrays of a file of :func:`to_safetensors`, and "steps" and the others."""
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
        expected, steps = run.pop("sha256"), run["steps"]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise ValueError(f"{path}: expected a checksum, found none") from None
    others = {name: value for name, value in run.items() if name != "steps"}
    if checksum(arrays, steps, others) != expected:
        raise ValueError(f"{path}: expected numbers that fit their checksum")
    return arrays, run


def checksum(arrays: dict[str, np.ndarray], steps: int | None, others: dict) -> str:
    sha256 = hashlib.sha256(repr(steps).encode())
    if others:
        sha256.update(json.dumps(others, sort_keys=True).encode())
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
        sync_folder(path.parent)
    except OSError as error:  # name the file, whatever went wrong with it
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    finally:
        with suppress(OSError):  # where nothing can be written, nothing can be removed
            temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Let the names in a folder outlast a power cut, where the system can do that."""
    if os.name == "posix":
        with suppress(OSError):  # some file systems cannot
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


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
