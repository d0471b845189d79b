"""The workspace of a reader who works in the pages of the book.

The page keeps the answers and calls these functions in Python that runs in the browser, where a
folder lasts as long as a call: everything comes and goes as text in JSON.
"""

import ast
import builtins
import json
import linecache
import re
import shutil
import sys
import traceback
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from html import escape
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO, StringIO
from math import erf
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np

from transformer_core import gradient_check, ops
from transformer_practice.engine.answer import Answer
from transformer_practice.engine.exercise import titles_of, written_in
from transformer_practice.engine.report import lines
from transformer_practice.exercises import every_exercise, find_exercise
from transformer_practice.workspace.examined import OPEN, Examined, examine_answer, examine_chapter
from transformer_practice.workspace.folder import Own, chapters, file_of, start
from transformer_practice.workspace.ledger import FILE as LEDGER
from transformer_practice.workspace.ledger import write_ledger
from transformer_practice.workspace.parts import joined, parses, split
from transformer_practice.workspace.progress import FILE as PROGRESS
from transformer_practice.workspace.progress import Progress
from transformer_practice.workspace.room import shortened

LISTING = "<listing>"  # the name of its file


def begin() -> None:
    """Read all exercises; give the page SciPy's error function, which is all that they need."""
    every_exercise()
    if not find_spec("scipy"):
        special: Any = ModuleType("scipy.special")
        special.erf = lambda x: np.asarray(np.vectorize(erf, otypes=[float])(x), np.result_type(x))
        sys.modules |= {"scipy": ModuleType("scipy"), "scipy.special": special}


def examine(name: str, kept: str) -> str:
    """Examine an answer: the report in HTML, and what is remembered then.

    The answer stands first in its file, so that lines have the numbers that its editor shows.
    """
    exercise, answers = find_exercise(name), json.loads(kept)["answers"]
    others = [answers[each.name] for each in chapters()[exercise.chapter] if each.name in answers]
    text = "\n\n".join([answers[name], *(o for o in others if o != answers[name] and parses(o))])
    with workspace(kept) as folder, redirect_stdout(StringIO()) as output:
        (folder / file_of(exercise.chapter)).write_text(text, encoding="utf-8")
        (examined,) = examine_chapter(folder, exercise.chapter, [exercise])
        progress = Progress(folder)
        progress.note(examined)
    told = html_of(examined.with_printed(shortened(output.getvalue())))
    return json.dumps({"html": told, "state": examined.state, "progress": progress.entries})


def hint(name: str, kept: str) -> str:
    """Give the next hint for an exercise."""
    with workspace(kept) as folder:
        progress = Progress(folder)
        said = progress.hint(find_exercise(name))
    return json.dumps({"html": f"<p>{escape(said)}</p>", "progress": progress.entries})


def make_ledger(kept: str) -> str:
    """Examine every answer, and return the ledger as a page of its own."""
    with workspace(kept) as folder, redirect_stdout(StringIO()):
        entries = write_ledger(folder).entries
        return json.dumps({"page": (folder / LEDGER).read_text("utf-8"), "progress": entries})


def pack(kept: str) -> str:
    """Return a workspace with all answers as a ZIP file in base 64."""
    with workspace(kept) as folder, TemporaryDirectory() as beside:
        start(folder)
        archive = shutil.make_archive(f"{beside}/mine", "zip", folder.parent, folder.name)
        return json.dumps({"zip": b64encode(Path(archive).read_bytes()).decode()})


def unpack(name: str, content: str) -> str:
    """Return the answers of a packed workspace, or of one file of it, and what it remembers.

    Raises
    ------
    ValueError
        If the file, given in base 64, is neither, or a file in it is not whole.
    """
    data = b64decode(content)
    try:
        with ZipFile(BytesIO(data)) as archive:
            files = {Path(each).name: archive.read(each) for each in archive.namelist()}
    except BadZipFile:
        files = {re.sub(r" ?\(\d+\)", "", name): data}  # of a second copy: "x (1).py"
    answers: dict[str, str] = {}
    for chapter in chapters():
        if file_of(chapter) in files:
            answers |= split(chapter, files[file_of(chapter)].decode(errors="replace"))
    if not files.keys() & {PROGRESS, *map(file_of, chapters())}:
        raise ValueError(f"{name}: expected a workspace in a ZIP file, or the file of a chapter")
    with TemporaryDirectory() as folder:
        if PROGRESS in files:
            Path(folder, PROGRESS).write_bytes(files[PROGRESS])
        return json.dumps({"answers": answers, "progress": Progress(Path(folder)).entries})


def run(code: str, path: str, place: str) -> str:
    """Run a listing: what it prints, and a report on every exercise that it has.

    Parameters
    ----------
    code : str
    path : str
        Of the file from which it is, among whose names it runs; empty: among those of a chapter.
    place : str
        Of the listing in the book, such as "listing-...-adam.update": a method takes its place in
        its class.
    """
    namespace = names_in(path)
    linecache.cache[LISTING] = len(code), None, code.splitlines(keepends=True), LISTING
    with redirect_stdout(StringIO()) as output, redirect_stderr(output):
        made = executed(code, namespace, place)
    reports = [
        html_of(examine_answer(Own(exercise, found), Answer(exercise, *found)))
        for exercise in every_exercise()
        if made & {title.partition(".")[0] for title in titles_of(exercise)}
        for found in [tuple(written_in(exercise, namespace))]
    ]
    said = shortened(output.getvalue())
    if not said and not reports:
        said = f"Defined: {', '.join(sorted(made))}." if made else "It printed nothing."
    return json.dumps({"printed": said, "html": "".join(reports)})


def names_in(path):
    """Return the names among which a listing runs: a copy, so that the package stays as it is."""
    if path:
        return dict(vars(import_module(path.removesuffix(".py").replace("/", "."))))
    names = {name: getattr(ops, name) for name in dir(ops) if not name.startswith("_")}
    names |= {name: each for name, each in vars(gradient_check).items() if callable(each)}
    return names | {"np": np, "ops": ops, "__name__": "__main__", "__builtins__": builtins}


def executed(code, namespace, place):
    """Run code, print the value of a last expression, and return what it defines."""
    try:
        tree = ast.parse(code, LISTING)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        owner, _, method = place.rpartition("-")[2].partition(".")
        if method in defined(tree):
            (owner,) = (name for name in namespace if name.lower() == owner)
            methods, tree = tree, ast.parse(f"class {owner}({owner}): pass")
            vars(tree.body[0])["body"] = methods.body
        exec(compile(tree, LISTING, "exec"), namespace)
        if defined(tree) == {owner}:
            stand_in(namespace[owner])
        if last:
            value = eval(compile(ast.Expression(last.value), LISTING, "eval"), namespace)
            if value is not None:
                print(value)
    except BaseException as error:
        frames = error.__traceback__ and error.__traceback__.tb_next
        traceback.print_exception(type(error), error, frames)
        return set()
    return defined(tree)


def defined(tree):
    """Return the names of the functions and classes of a module."""
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def stand_in(owner):
    """Let the methods of a class have the ``super()`` of the class that it stands for."""
    for method in vars(owner).values():
        for cell in getattr(method, "__closure__", None) or ():
            cell.cell_contents = owner.__base__


@contextmanager
def workspace(kept: str) -> Iterator[Path]:
    """Write a folder with the answers and what is remembered."""
    given = json.loads(kept)
    with TemporaryDirectory() as home:
        folder = Path(home, "mine")
        folder.mkdir()
        (folder / PROGRESS).write_text(json.dumps(given["progress"]), encoding="utf-8")
        for chapter, exercises in chapters().items():
            if any(each.name in given["answers"] for each in exercises):
                text = joined(chapter, given["answers"])
                (folder / file_of(chapter)).write_text(text, encoding="utf-8")
        yield folder


def html_of(examined: Examined) -> str:
    """Return what is said of an answer; the page has a button for hints."""
    if not examined.report:
        kind = "open" if examined.state == OPEN else "wrong"
        said = f"{examined.name}: {examined.line}"
        return f'<div class="examined examined-{kind}"><p><strong>{lines(said)}</strong></p></div>'
    where, _, _ = examined.report.next.partition("transformer-practice hint")
    return replace(examined.report, next=where.strip())._repr_html_()
