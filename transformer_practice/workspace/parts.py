"""The file of a chapter in parts: for each exercise one, as an editor in its page has it."""

import ast

from transformer_practice.engine.exercise import Exercise, titles_of
from transformer_practice.workspace.folder import chapters, header_of, stub_of

IMPORT = "import numpy as np"


def part_of(code: str) -> str:
    """Return code as a part: with NumPy, which every part imports, so that it stands alone."""
    code = code.strip("\n")
    return f"{code}\n" if IMPORT in code.splitlines() else f"{IMPORT}\n\n\n{code}\n"


def starter(exercise: Exercise) -> str:
    """Return the part from which a reader starts."""
    return part_of(stub_of(exercise))


def joined(chapter: str, parts: dict[str, str]) -> str:
    """Return the file of a chapter that has some parts; the others are stubs."""
    codes = (parts.get(each.name, starter(each)) for each in chapters()[chapter])
    bare = [code.replace(f"{IMPORT}\n", "", 1).strip("\n") for code in codes]
    return "\n\n\n".join([header_of(chapter), *bare]) + "\n"


def split(chapter: str, text: str) -> dict[str, str]:
    """Return the parts of a chapter's file that are more than stubs.

    A part ends with the last function of its exercise; what stands before that, back to the end of
    the part before, belongs to it.

    Raises
    ------
    ValueError
        If the file is not Python.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{chapter}.py: expected Python, got: {error}") from None
    lines = text.splitlines()
    begin = 0
    if ast.get_docstring(tree) is not None:
        begin = tree.body[0].end_lineno or 0
    ends = {}
    for exercise in chapters()[chapter]:
        names = {title.partition(".")[0] for title in titles_of(exercise)}
        last = [node.end_lineno for node in tree.body if getattr(node, "name", "") in names]
        if last:
            ends[exercise] = max(filter(None, last))
    parts = {}
    for exercise in sorted(ends, key=ends.__getitem__):
        end = ends[exercise]
        if end == max(ends.values()):
            end = len(lines)
        code = [line for line in lines[begin:end] if line != IMPORT]
        part, begin = part_of("\n".join(code)), end
        if part != starter(exercise):
            parts[exercise.name] = part
    return parts


def parses(code: str) -> bool:
    """Tell whether code is Python."""
    try:
        ast.parse(code)
    except (SyntaxError, ValueError):
        return False
    return True
