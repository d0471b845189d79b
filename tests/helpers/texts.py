"""How the tests read pages and notebooks."""

import ast
import json
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
# True in a browser as soon as all of a page is laid out.
LAID_OUT = """[...document.querySelectorAll(".bd-article > section > section")]
    .every((section) => getComputedStyle(section).contentVisibility === "visible")"""


def read(path):
    return path.read_text(encoding="utf-8")


def imported(text):
    """The packages that a program imports, wherever in it."""
    return set(re.findall(r"^ *(?:import|from) (\w+)", text, re.MULTILINE))


def import_statements(text):
    """The statements of a formatted program that import, wherever in it, its strings too."""
    found = re.findall(r"^ *((?:import|from) [^(\n]+(?:\([^)]*\).*)?)$", text, re.MULTILINE)
    return ast.parse("\n".join(found)).body


class Node(dict):
    """An object of JSON whose values are attributes, too."""

    __getattr__ = dict.__getitem__


@cache
def notebook(path):
    return json.loads(read(path), object_hook=Node)


def cells(path, kind):
    return [
        Node(cell, source="".join(cell.source))
        for cell in notebook(path).cells
        if cell.cell_type == kind
    ]


@cache
def prose(path):
    """The text of a page, or of a notebook's Markdown cells, without its blocks of code."""
    if path.suffix == ".ipynb":
        text = "\n\n".join(cell.source for cell in cells(path, "markdown"))
    else:
        text = read(path)
    kept, fences, in_code = [], [], False
    for line in text.splitlines():
        fence, rest = re.match(r"\s*(`{3,}|:{3,}|)(.*)", line).groups()
        if fence and fences and fence == fences[-1] and not rest.strip():
            fences.pop()
            in_code = False
        elif fence and not in_code:
            fences.append(fence)
            in_code = not rest.startswith("{")
        if not in_code:
            kept.append(line)
    return "\n".join(kept)
