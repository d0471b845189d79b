"""What is remembered of a workspace: progress.json, one entry an exercise."""

from copy import deepcopy
from datetime import date
from pathlib import Path
from textwrap import fill
from typing import Any

from transformer_core.foundation.files import read_json, to_json, write_atomically
from transformer_practice.engine.exercise import Exercise
from transformer_practice.workspace.examined import RIGHT, Examined

FILE = "progress.json"
AND = ", "  # between mistakes that explain one answer
NEW: dict[str, Any] = {
    "state": "",  # at the last examination
    "right": "",  # the day on which it was right first
    "mistakes": [],  # on the way: [day, names in the catalogue or what was said]
    "hints": 0,  # how many were given
    "errors": {},  # of the last right answer: output -> point -> relative error
}


class Progress:
    """What is remembered, as the file has it.

    Parameters
    ----------
    folder : Path

    Raises
    ------
    ValueError
        If the file is not what was written.
    """

    def __init__(self, folder: Path):
        self.path = folder / FILE
        self.entries: dict[str, dict] = {}
        self.saved = b""
        if self.path.exists():
            self.saved = self.path.read_bytes()
            self.entries = read_json(self.path, self.saved)
            self.check()

    def check(self) -> None:
        """Raise ``ValueError`` unless every entry has the form of a new one."""
        if not isinstance(self.entries, dict):
            raise ValueError(f"{self.path}: expected a JSON object, got another value")
        for name, entry in self.entries.items():
            problem = objection(entry)
            if problem:
                raise ValueError(f"{self.path}: {name}: {problem}")

    def of(self, name: str) -> dict:
        """Return what is remembered of an exercise, to be read or changed."""
        return self.entries.setdefault(name, deepcopy(NEW))

    def note(self, examined: Examined) -> None:
        """Remember an examination."""
        report, today = examined.report, date.today().isoformat()
        if not examined.own.written and examined.name not in self.entries:
            return
        entry = self.of(examined.name)
        entry["state"] = examined.state
        if examined.state == RIGHT and report:
            entry["right"] = entry["right"] or today
            entry["errors"] = report.errors
        elif report and report.written and not report.right:
            said = AND.join(report.mistakes) or examined.said
            if said not in [said for _, said in entry["mistakes"][-1:]]:
                entry["mistakes"].append([today, said])

    def hint(self, exercise: Exercise) -> str:
        """Return the next hint for an exercise, and remember that it was given."""
        entry, hints = self.of(exercise.name), exercise.hints
        given = entry["hints"]
        if given >= len(hints):
            equations = ", ".join(about.equation for about in exercise.functions)
            return (
                f"{exercise.name}: there are no more hints. Read on in the chapter "
                f"{exercise.chapter}: {equations}"
            )
        entry["hints"] = given + 1
        return fill(f"{exercise.name}, hint {given + 1} of {len(hints)}: {hints[given]}")

    def right(self) -> set[str]:
        """Return the names of the exercises that were right at their last examination."""
        return {n for n, entry in self.entries.items() if entry["state"] == RIGHT}

    def save(self) -> bool:
        """Write the file if there is something new; return whether there was."""
        content = to_json(FILE, self.entries)
        if content == self.saved or not self.entries:
            return False
        write_atomically(self.path, content)
        self.saved = content
        return True


def objection(entry):
    """Say in what an entry has not the form of a new one; nothing if it has."""
    if not isinstance(entry, dict):
        return "expected a JSON object"
    for key, new in NEW.items():
        if type(entry.get(key)) is not type(new):
            return f"{key}: expected a value such as {new!r}, got {entry.get(key)!r}"
    if entry["hints"] < 0:
        return f"hints: expected a number from 0, got {entry['hints']}"
    for mistake in entry["mistakes"]:
        if not is_pair_of_texts(mistake):
            return f"mistakes: expected pairs of a day and what was said, got {mistake!r}"
    for row in entry["errors"].values():
        if not isinstance(row, dict):
            return f"errors: expected those of each point, got {row!r}"
    return ""


def is_pair_of_texts(value):
    return (
        isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) for part in value)
    )
