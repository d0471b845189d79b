"""What notebooks measure by the clock, which is never the same twice.

A notebook shows its own times. With ``MEASURED=stored``, as the book and the tests set it, it
measures and shows what is stored in ``notebooks/measured.json``; with ``MEASURED=anew`` it stores.
"""

import json
import os
from ast import literal_eval
from pathlib import Path
from typing import Any

import numpy as np

STORE = Path(__file__).parents[1] / "notebooks" / "measured.json"


def record(name: str, value: Any) -> Any:
    """Return what was just measured, or what is on record under its name."""
    wanted = os.environ.get("MEASURED")
    stored = json.loads(STORE.read_text("utf-8")) if wanted and STORE.exists() else {}
    if wanted == "anew":
        stored[name] = repr(plain(value))
        text = json.dumps(stored, indent=1, sort_keys=True) + "\n"
        STORE.write_text(text, encoding="utf-8", newline="\n")
    return literal_eval(stored[name]) if wanted else value


def repeats(number: int) -> int:
    """Return how often to measure: once where what is stored is shown."""
    return 1 if os.environ.get("MEASURED") == "stored" else number


def plain(value):
    """The same numbers without NumPy, in the same lists, tuples and dictionaries."""
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
