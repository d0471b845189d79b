"""Files that are whole or not there: JSON, and arrays with their checksum."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np


def to_safetensors(
    arrays: dict[str, np.ndarray], steps: int | None = None, **others: Any
) -> bytes:
    """Return arrays, a number of steps, what else goes with them, and the checksum of all.

    The file is of safetensors; JSON has to hold the others.
    """
    file, in_order = BytesIO(), (array for _, array in sorted(arrays.items()))
    write_safetensors(file, arrays, in_order, steps, **others)
    return file.getvalue()


def write_safetensors(
    file: BinaryIO,
    like: dict[str, np.ndarray],
    arrays: Iterable[np.ndarray],
    steps: int | None = None,
    **others: Any,
) -> None:
    """Write what :func:`to_safetensors` returns, and hold no more than one array meanwhile.

    Parameters
    ----------
    file
        One in which ``seek`` works: the checksum, which comes first, is known last.
    like : dict of str to ndarray
        The names, shapes and dtypes.
    arrays : iterable of ndarray
        In the order of the names.
    """

    def head(sha256):
        run = json.dumps({"sha256": sha256, "steps": steps} | others)
        entries: dict[str, dict] = {"__metadata__": {"run": run}}
        start = 0
        for name, array in sorted(like.items()):
            bits, kind = 8 * array.dtype.itemsize, array.dtype.kind
            entries[name] = {
                "dtype": "BOOL" if kind == "b" else f"{kind.upper()}{bits}",
                "shape": array.shape,
                "data_offsets": (start, start + array.nbytes),
            }
            start += array.nbytes
        text = json.dumps(entries).encode()
        text += b" " * (-len(text) % 8)
        return len(text).to_bytes(8, "little") + text

    def written():
        for name, array in zip(sorted(like), arrays, strict=True):
            array = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
            file.write(array.data)
            yield name, array

    file.write(head("0" * 64))
    sha256 = checksum(written(), steps, others)
    file.seek(0)
    file.write(head(sha256))


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
    return arrays, checked(path, sorted(arrays.items()), header.get("__metadata__"))


def read_safetensors(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the arrays of a file with their names, in the order of these, one at a time."""
    with open_safetensors(path) as file:
        for name in sorted(file.keys()):
            yield name, file.get_tensor(name)


def check_safetensors(path: Path) -> dict:
    """Return "steps" and the others of a file whose arrays fit the checksum."""
    with open_safetensors(path) as file:
        metadata = file.metadata()
    return checked(path, read_safetensors(path), metadata)


@contextmanager
def open_safetensors(path):
    """Open a file, or raise ``ValueError`` if it is not whole."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as file:
            yield file
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: expected a whole safetensors file, got: {error}"
        ) from None


def checked(path, arrays, metadata):
    """Return what a file says of itself, if its arrays fit the checksum."""
    try:
        run = json.loads(metadata["run"])
        expected, steps = run.pop("sha256"), run["steps"]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise ValueError(f"{path}: expected a checksum, found none") from None
    others = {name: value for name, value in run.items() if name != "steps"}
    if checksum(arrays, steps, others) != expected:
        raise ValueError(f"{path}: expected numbers that fit their checksum")
    return run


def checksum(
    arrays: Iterable[tuple[str, np.ndarray]], steps: int | None, others: dict
) -> str:
    """Return the checksum of arrays, in the order of their names, and what goes with them."""
    sha256 = hashlib.sha256(repr(steps).encode())
    if others:
        sha256.update(json.dumps(others, sort_keys=True).encode())
    for name, array in arrays:
        sha256.update(repr((name, array.dtype.str, array.shape)).encode())
        sha256.update(array.data)
    return sha256.hexdigest()


def write_atomically(path: Path, content: bytes | Callable[[BinaryIO], object]) -> None:
    """Write a file that is either the old one or the new one, never a part.

    The content is bytes, or a function that writes them into the file that it is given.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            content(file) if callable(content) else file.write(content)
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
