r"""Trained models for the page: weights in 8 bits, in a script that ``_static/models.js`` reads.

The rows of a matrix are rounded by ``round_rows`` of the package (eq:round-rows). The script calls
``models.register(name, {settings, shapes, data})``. ``data`` is base64 of the arrays, one after the
other: of a matrix its scales as float32, then its whole numbers as int8; of any other array its
numbers as float32. Numbers of more than one byte begin with the lowest. Nothing is compressed:
rounded weights lose 5 % by it.
"""

import base64
import json
from pathlib import Path

import numpy as np

from transformer_core.ops import round_rows


def in_eight_bits(parameters):
    """Parameters by name as 8 bits leave them, float32: matrices rounded, others as they are."""
    return {name: unpack(pack(a), a.shape)[0] for name, a in parameters.items()}


def write_script(path, name, parameters, settings):
    """Write parameters in 8 bits, and settings that JSON can hold, as the script of a model."""
    model = {
        "settings": settings,
        "shapes": {name: array.shape for name, array in parameters.items()},
        "data": base64.b64encode(b"".join(map(pack, parameters.values()))).decode(),
    }
    text = json.dumps(model, ensure_ascii=False, separators=(",", ":"))
    script = f"models.register({json.dumps(name)},{text});\n"
    Path(path).write_text(script, encoding="utf-8", newline="\n")


def read_script(path):
    """The settings and the parameters of a script, as ``in_eight_bits`` returns them.

    Raises ``ValueError`` if it is no such script, or not whole.
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
    return b"".join(part.astype(part.dtype.newbyteorder("<")).tobytes() for part in parts)


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
