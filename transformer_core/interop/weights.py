"""Arrays in the files of a folder: one ``model.safetensors``, or shards with their index."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path

import numpy as np

from transformer_core.foundation.files import open_safetensors, read_json

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
PIECE = 2**20  # numbers that are read at once
PICKLES = "pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt"
# What is read, and as what: bfloat16 is the upper half of float32.
DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16}


class Weights(Mapping):
    """The arrays of a folder by their names; each is read when it is asked for.

    Opening reads the headers alone, and checks them against the lengths of the files.

    Parameters
    ----------
    folder : Path
    sha256 : str, optional
        Of the one file, in hexadecimal digits, which is then checked before anything is read.

    Raises
    ------
    ValueError
        If there are no weights, or only pickles; if a file is cut short, or its header does not fit
        it, its hash is another, or the index names what is not there.
    """

    def __init__(self, folder: Path, sha256: str | None = None):
        self.places: dict[str, tuple[Path, int, dict]] = {}
        for path in files_of(folder, sha256):
            for name, place in header(path).items():
                if name in self.places:
                    raise ValueError(f"{path}: expected {name!r} in one file, got two")
                self.places[name] = place
        index = folder / INDEX
        if not (folder / WHOLE).exists():
            listed = read_json(index, index.read_bytes())["weight_map"]
            found = {name: path.name for name, (path, *_) in self.places.items()}
            if listed != found:
                name, _ = min(listed.items() ^ found.items())
                raise ValueError(
                    f"{index}: {name!r} is in {found.get(name, 'no shard')}, expected "
                    f"in {listed.get(name, 'none')}"
                )

    def __getitem__(self, name: str) -> np.ndarray:
        shape = self.shape(name)
        return self.read(name, 0, prod(shape)).reshape(shape)

    def pieces(self, name: str) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield slices of the first axis of an array, of a few megabytes, with what they hold."""
        length, *others = self.shape(name)
        width = prod(others)
        step = max(1, PIECE // max(1, width))
        for first in range(0, length, step):
            last = min(first + step, length)
            entries = self.read(name, first * width, (last - first) * width)
            yield slice(first, last), entries.reshape(-1, *others)

    def read(self, name: str, first: int, count: int) -> np.ndarray:
        """Return some of the numbers of an array, in the order of the file."""
        path, start, entry = self.places[name]
        kind = np.dtype(DTYPES[entry["dtype"]]).newbyteorder("<")
        start += entry["data_offsets"][0] + first * kind.itemsize
        array = np.fromfile(path, kind, count, offset=start)
        if entry["dtype"] == "BF16":
            return (array.astype(np.uint32) << 16).view(np.float32)
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array without reading it."""
        return tuple(self.places[name][2]["shape"])

    def dtype(self, name: str) -> str:
        """Return the dtype of an array, by its name in the file."""
        return self.places[name][2]["dtype"]


def files_of(folder, sha256):
    """Return the files with the weights of a folder."""
    whole, index = folder / WHOLE, folder / INDEX
    if whole.exists():
        if sha256 is not None:
            with whole.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != sha256:
                raise ValueError(f"{whole}: expected the SHA-256 {sha256}, got {found}")
        return [whole]
    if sha256 is not None:
        raise ValueError(f"{whole}: expected one file with the SHA-256, got none")
    if not index.exists():
        pickles = [path.name for each in PICKLES for path in sorted(folder.glob(each))]
        run = "a pickle: reading it can run code"
        instead = f"{pickles[0]}, {run}" if pickles else "none"
        raise ValueError(f"{folder}: expected {WHOLE} or {INDEX}, got {instead}")
    content = read_json(index, index.read_bytes())
    names = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(names, dict) or not all(
        isinstance(name, str) and Path(name).name == name for name in names.values()
    ):
        raise ValueError(
            f"{index}: expected a weight_map of names of files in the folder"
        )
    paths = [folder / name for name in sorted(set(names.values()))]
    for path in paths:
        if not path.is_file():
            raise ValueError(f"{index}: expected the file {path.name}, got none")
    return paths


def header(path):
    """Return where each array of a file stands; its header has passed the library's checks."""
    with open_safetensors(path) as file:
        names = list(file.keys())
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        entries = json.loads(file.read(length))
    for name in names:
        dtype = entries[name]["dtype"]
        if dtype not in DTYPES and not is_buffer(dtype):
            raise ValueError(
                f"{path}: {name}: expected one of {', '.join(DTYPES)}, got {dtype}"
            )
    return {name: (path, 8 + length, entries[name]) for name in names}


def is_buffer(dtype):
    """Tell whether an array holds whole numbers or booleans, as masks and positions do."""
    return dtype[0] in "IUB" and dtype != "BF16"
