"""How long reading takes: ``{reading-time}``, ``{short-path}``, and the count behind them."""

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
    text = re.sub(r"\A---\n.*?^---\n", "", text, flags=re.DOTALL | re.MULTILINE)
    exercises = len(re.findall(r"^[`:]{3,}\{exercise\}", text, re.MULTILINE))
    text, formulas = re.subn(r"\$\$.*?\$\$(?: \(\S+\))?", " ", text, flags=re.DOTALL)
    listing = r"^```(?:\w+\n|\{(?:source|mistake|notebook-cell)\}).*?^```$"
    text, listings = re.subn(listing, " ", text, flags=re.DOTALL | re.MULTILINE)
    markup = r"^[`:]{3,}.*$|^:[\w-]+:.*$|^\|[-:| ]+\|$|^\([\w-]+\)=$|^% .*$"
    text = re.sub(markup, " ", text, flags=re.MULTILINE)
    text = re.sub(r"\{[\w:-]+\}`[^`]*`|\$[^$]+\$|`[^`]+`", " one ", text)
    text = re.sub(r"\]\([^)]*\)", " ", text)
    words = re.findall(r"[^\W_]+(?:['’.,-][^\W_]+)*", text)
    return Size(len(words), formulas, listings, exercises)


def minutes(text: str) -> tuple[int, int]:
    """Minutes to read a page with a pencil, and to do its exercises."""
    page = size(text)
    reading = page.words / WORDS_A_MINUTE + sum(
        MINUTES[part] * getattr(page, part) for part in ("formulas", "listings")
    )
    return five(reading), five(MINUTES["exercises"] * page.exercises)


def sections(text: str, titles: list[str]) -> str:
    """The sections of a page that have these titles."""
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    by_title = dict(zip(parts[1::2], parts[2::2], strict=True))
    return "\n".join(by_title[title] for title in titles)


def path(folder: Path, lines: list[str]) -> list[tuple[str, list[str], int]]:
    """The pages of a path, the sections to read of each (none: all of it), and the minutes.

    A line is the name of a page, or ``page: one title; another title``.
    """
    steps = []
    for line in lines:
        page, _, titles = line.partition(": ")
        named = titles.split("; ") if titles else []
        text = (folder / f"{page}.md").read_text(encoding="utf-8")
        steps.append((page, named, minutes(sections(text, named) if named else text)[0]))
    return steps


def five(minutes):
    """Rounded up to five minutes."""
    return 5 * ceil(minutes / 5)


class ReadingTime(SphinxDirective):
    """Say how long the page, its exercises and its notebook take; or the pages of a pattern."""

    optional_arguments = 1

    def run(self):
        path = Path(self.env.doc2path(self.env.docname))
        if self.arguments:
            pages = sorted(path.parent.glob(self.arguments[0]))
            for page in pages:
                self.env.note_dependency(str(page))
            times = [minutes(page.read_text(encoding="utf-8")) for page in pages]
            reading, exercises = (ceil(sum(part) / 60) for part in zip(*times, strict=True))
            text = f"**Time**: {reading} hours to read, {exercises} for the exercises."
            return self.parse_text_to_nodes(text)
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


class ShortPath(SphinxDirective):
    """A table of pages, or of sections of them, with the minutes of each and the time so far."""

    has_content = True

    def run(self):
        folder = Path(self.env.doc2path(self.env.docname)).parent
        rows, so_far = ["| Page | Sections | Minutes | So far |", "|---|---|---|---|"], 0
        for page, titles, reading in path(folder, list(self.content)):
            self.env.note_dependency(str(folder / f"{page}.md"))
            so_far += reading
            clock = f"{so_far // 60}:{so_far % 60:02d} h"
            named = ", ".join(f"*{title}*" for title in titles) or "whole page"
            rows.append(f"| []({page}.md) | {named} | {reading} | {clock} |")
        return self.parse_text_to_nodes("\n".join(rows))


def setup(app):
    app.add_directive("reading-time", ReadingTime)
    app.add_directive("short-path", ShortPath)
    return {"parallel_read_safe": True}
