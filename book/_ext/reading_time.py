"""How long a page takes: the directive ``{reading-time}``, and the count behind it."""

import json
import re
from math import ceil
from pathlib import Path
from typing import NamedTuple

from sphinx.util.docutils import SphinxDirective

WORDS_A_MINUTE = 100
MINUTES = {"formulas": 1.5, "listings": 1, "exercises": 15, "cells": 1}
MOST_WORDS = 4000  # of a page


class Size(NamedTuple):
    words: int  # a formula within a line counts as one
    formulas: int  # displayed ones
    listings: int
    exercises: int


def size(text: str) -> Size:
    """Count what a page of MyST Markdown gives its reader, folded solutions included."""
    exercises = len(re.findall(r"^[`:]{3,}\{exercise\}", text, re.MULTILINE))
    text, formulas = re.subn(r"\$\$.*?\$\$(?: \(\S+\))?", " ", text, flags=re.DOTALL)
    text, code = re.subn(r"^```\w+\n.*?^```$", " ", text, flags=re.DOTALL | re.MULTILINE)
    text, shown = re.subn(
        r"^```\{(source|mistake|notebook-cell)\}.*?^```$", " ", text, flags=re.DOTALL | re.MULTILINE
    )
    text = re.sub(
        r"^[`:]{3,}.*$|^:[\w-]+:.*$|^\|[-:| ]+\|$|^\([\w-]+\)=$", " ", text, flags=re.MULTILINE
    )
    text = re.sub(r"\{[\w:-]+\}`[^`]*`|\$[^$]+\$|`[^`]+`", " one ", text)
    text = re.sub(r"\]\([^)]*\)", " ", text)
    words = re.findall(r"[^\W_]+(?:['’.,-][^\W_]+)*", text)
    return Size(len(words), formulas, code + shown, exercises)


def minutes(text: str) -> tuple[int, int]:
    """Minutes to read a page with a pencil, and to do its exercises."""
    page = size(text)
    reading = page.words / WORDS_A_MINUTE + sum(
        MINUTES[part] * getattr(page, part) for part in ("formulas", "listings")
    )
    return five(reading), five(MINUTES["exercises"] * page.exercises)


def five(minutes):
    """Rounded up to five minutes."""
    return 5 * ceil(minutes / 5)


class ReadingTime(SphinxDirective):
    """Say how long the page, its exercises and its notebook take."""

    def run(self):
        path = Path(self.env.doc2path(self.env.docname))
        reading, exercises = minutes(path.read_text(encoding="utf-8"))
        parts = [f"{reading} minutes to read"]
        if exercises:
            parts.append(f"{exercises} for the exercises")
        notebook = path.parents[1] / "notebooks" / f"{path.stem}.ipynb"
        if notebook.exists():
            self.env.note_dependency(str(notebook))
            cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
            shown = sum(
                cell["cell_type"] == "code"
                and "remove-cell" not in cell["metadata"].get("tags", ())
                for cell in cells
            )
            link = f"[notebook](../notebooks/{notebook.name})"
            parts.append(f"{five(MINUTES['cells'] * shown)} in the {link}")
        text = f"**Time**: {', '.join(parts)}."
        return self.parse_text_to_nodes(text)


def setup(app):
    app.add_directive("reading-time", ReadingTime)
    return {"parallel_read_safe": True}
