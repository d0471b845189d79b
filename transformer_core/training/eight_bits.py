"""Weights in 8 bits, in a script that a page loads from a folder or a server."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

LARGEST = 127  # of the whole numbers in a row: from -127 to 127, the same on both sides


def round_rows(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Write each row as whole numbers of 8 bits times one number.

    .. math:: x_{ij} \approx s_i\, q_{ij}, \qquad s_i = \max_j |x_{ij}| / 127

    No entry moves by more than half of its row's :math:`s_i`.

    Parameters
    ----------
    matrix : ndarray (N, M)

    Returns
    -------
    whole : ndarray of int8 (N, M)
        q.
    scales : ndarray of float32 (N, 1)
        s.

    Raises
    ------
    ValueError
        If it is no matrix, is empty, or holds a number that is not finite.
    """
    if matrix.ndim != 2 or not matrix.size:
        raise ValueError(f"matrix: expected one of (N, M), got {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise ValueError("matrix: expected finite numbers, got others")
    largest = np.abs(matrix).max(axis=1, keepdims=True)
    scales = (largest / LARGEST).astype(np.float32)
    steps = np.where(scales > 0, scales, 1)
    return np.rint(matrix / steps).clip(-LARGEST, LARGEST).astype(np.int8), scales


def in_eight_bits(parameters: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return parameters as 8 bits leave them: matrices rounded, all others as they are.

    Parameters
    ----------
    parameters : dict of str to ndarray

    Returns
    -------
    dict of str to ndarray of float32
        Under the same names.

    Raises
    ------
    ValueError
        As :func:`round_rows`.
    """
    return {name: unpack(pack(a), a.shape)[0] for name, a in parameters.items()}


def write_script(
    path: str | Path, name: str, parameters: Mapping[str, np.ndarray], settings: dict
) -> None:
    """Write parameters in 8 bits, and what the model needs besides, as a script.

    The script calls ``models.register(name, {settings, shapes, data})``. ``data`` is base64 of the
    arrays, one after the other: of a matrix its scales as float32, then its whole numbers as int8,
    see :func:`round_rows`; of any other array its numbers as float32. Numbers of more than one byte
    begin with the lowest. Nothing is compressed: rounded weights lose 5 % by it.

    Parameters
    ----------
    path : str or Path
    name : str
    parameters : dict of str to ndarray
    settings : dict
        What JSON can hold.

    Raises
    ------
    ValueError
        As :func:`round_rows`.
    """
    model = {
        "settings": settings,
        "shapes": {name: array.shape for name, array in parameters.items()},
        "data": base64.b64encode(b"".join(map(pack, parameters.values()))).decode(),
    }
    text = json.dumps(model, ensure_ascii=False, separators=(",", ":"))
    script = f"models.register({json.dumps(name)},{text});\n"
    Path(path).write_text(script, encoding="utf-8", newline="\n")


def read_script(path: str | Path) -> tuple[dict, dict[str, np.ndarray]]:
    """Read what :func:`write_script` wrote.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    settings : dict
    parameters : dict of str to ndarray of float32
        As :func:`in_eight_bits` returns them.

    Raises
    ------
    ValueError
        If it is no such script, or not whole.
    """
    try:
        script = Path(path).read_text(encoding="utf-8")
        model = json.loads(script[script.index(",") + 1 : script.rindex(");")])
        data = base64.b64decode(model["data"], validate=True)
        parameters = {}
        for name, shape in model["shapes"].items():
            parameters[name], data = unpack(data, shape)
        if data:
            raise ValueError(f"{len(data)} bytes too many")
    except (LookupError, ValueError, OSError) as error:
        raise ValueError(f"{path}: expected a model in 8 bits, got: {error}") from None
    return model["settings"], parameters


def pack(array):
    """The bytes of an array."""
    parts = reversed(round_rows(array)) if array.ndim == 2 else [array.astype("<f4")]
    return b"".join(
        part.astype(part.dtype.newbyteorder("<")).tobytes() for part in parts
    )


def unpack(data, shape):
    """The array of a shape whose bytes come first, and the bytes after it."""
    matrix = len(shape) == 2
    numbers, size = (shape[0] if matrix else np.prod(shape, dtype=int)), np.prod(shape)
    array = np.frombuffer(data, "<f4", numbers).astype(np.float32)
    data = data[4 * numbers :]
    if matrix:
        whole = np.frombuffer(data, np.int8, size).reshape(shape)
        return whole * array[:, np.newaxis], data[size:]
    return array.reshape(shape), data
