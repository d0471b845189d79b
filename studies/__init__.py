"""Trainings that take too long for a page: run once by ``make studies``, and stored.

A study is a module with ``runs()``, which yields the settings of each run, and
``run(**settings)``, which returns what it measured as numbers, lists and dictionaries.
"""

import json
import time
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]


def results(name):
    """Return the stored results of a study.

    Parameters
    ----------
    name : str
        Of its module.

    Returns
    -------
    list of dict
        For each run its ``settings`` and what it ``found``.

    Raises
    ------
    ValueError
        If nothing is stored.
    """
    found = stored(name)["runs"]
    if not found:
        raise ValueError(f"expected stored results of {name}, got none: make studies")
    return found


@cache
def fingerprint(path):
    """Return eight digits for a file that runs begin with, which belong to their settings."""
    return sha256(path.read_bytes()).hexdigest()[:8]


def stored(name):
    path = ROOT / "studies" / "results" / f"{name}.json"
    if not path.exists():
        return {"executed": None, "minutes": 0.0, "runs": []}
    return json.loads(path.read_text(encoding="utf-8"))


def timed(name, settings):
    start = time.perf_counter()
    found = import_module(f"studies.{name}").run(**settings)
    return time.perf_counter() - start, found
