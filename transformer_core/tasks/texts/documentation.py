"""The documentation in the reader's own installation, as plain English."""

import ast
import importlib
import importlib.util
import os
import re
import sysconfig
import types
import warnings
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

from transformer_core.tasks.texts.documents import Document

SHORTEST = 30  # characters
# Modules written in C, which have no source to read, and do nothing on import.
COMPILED = """
    array binascii builtins bz2 cmath collections datetime decimal errno fcntl functools gc io
    itertools lzma marshal math mmap operator os posix pwd re select signal socket sqlite3 struct
    sys time unicodedata zlib numpy numpy.random
""".split()
DOCUMENTED = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef


def documentation() -> list[Document]:
    """Read the docstrings of Python, NumPy and Matplotlib, and Python's language reference.

    The sources are parsed, not run. Only prose is left: no doctests, code, underlines, tables'
    lines or markup. What says the same twice is read once. Matplotlib may be missing.

    Returns
    -------
    list of Document
        One for each object or topic, by its name; in the order of the sources.
    """
    documents: dict[str, Document] = {}
    for name, docstring in docstrings():
        text = prose(docstring)
        if len(text) >= SHORTEST:
            documents.setdefault(text, Document(name, text))
    return language_reference() + list(documents.values())


def language_reference() -> list[Document]:
    """Return the topics of ``help``, the longest first, without what an earlier one has said."""
    from pydoc_data.topics import topics

    documents: list[Document] = []
    said: set[str] = set()
    for name in sorted(topics, key=lambda name: (-len(topics[name]), name)):
        paragraphs = dict.fromkeys(prose(topics[name]).split("\n"))
        text = "\n".join(p for p in paragraphs if p not in said)
        said.update(paragraphs)
        if len(text) >= SHORTEST:
            documents.append(Document(name, text))
    return documents


def docstrings() -> Iterator[tuple[str, str]]:
    """Yield the name and the docstring of every object."""
    yield from docstrings_of_sources(Path(sysconfig.get_path("stdlib")))
    for package in ("numpy", "matplotlib"):
        spec = importlib.util.find_spec(package)
        if spec and spec.origin:
            yield from docstrings_of_sources(Path(spec.origin).parent)
    for name in COMPILED:
        try:
            module = importlib.import_module(name)
        except ImportError:  # not on this system
            continue
        yield from docstrings_of_objects(module)


def docstrings_of_sources(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the docstring of what is defined in a folder, without its tests."""
    paths: list[Path] = []
    for place, inner, files in os.walk(folder):
        inner[:] = {*inner} - {"test", "tests", "idle_test", "site-packages"}
        paths += (Path(place, file) for file in files if file.endswith(".py"))
    for path in sorted(paths):
        try:
            with warnings.catch_warnings(action="ignore"):
                tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):  # a template, not a module
            continue
        stem = path.parent.name if path.stem == "__init__" else path.stem
        yield from docstrings_of_tree(stem, tree)


def docstrings_of_tree(name, node):
    docstring = ast.get_docstring(node)
    if docstring:
        yield name, docstring
    for child in node.body:
        if isinstance(child, DOCUMENTED):
            yield from docstrings_of_tree(child.name, child)


def docstrings_of_objects(module: types.ModuleType) -> Iterator[tuple[str, str]]:
    """Yield the name and the docstring of what a module holds that is not written in Python."""
    for name, value in sorted(vars(module).items()):
        if name.startswith("_") or isinstance(
            value, (types.ModuleType, types.FunctionType)
        ):
            continue
        members = []
        if isinstance(value, type):
            members = sorted(vars(value).items())
        elif not callable(value):
            continue
        for inner, member in [(name, value), *members]:
            if isinstance(member, (str, types.FunctionType)):
                continue
            docstring = getattr(member, "__doc__", None)
            if isinstance(docstring, str):
                yield inner, cleandoc(docstring)


DOCTEST = re.compile(r"^ *>>>.*(\n(?! *$).*)*", re.MULTILINE)
DIRECTIVE = re.compile(r"\.\. +([\w:-]+)::")
KEPT_DIRECTIVES = "note", "warning", "seealso", "admonition", "important", "tip", "hint"
TARGET = re.compile(r"\.\. +_")
SIGNATURE = re.compile(r"[\w.]+\(.*\)( -> [\w.]+)?")
ROLE = re.compile(r"(?::[\w:+-]+:)?`+~?\.?([^`<]*?)(?: *<[^>`]*>)?`+_*")
EMPHASIS = re.compile(r"(?<!\w)(\*\*?)(\w(?:[^*]*\w)?)\1(?!\w)")
PLACEHOLDER = re.compile(r"%\([\w:.]+\)s|\$\{\w+\}|[|\\]")


def prose(docstring: str) -> str:
    """Return the paragraphs of a docstring, one a line, without code and markup."""
    lines, hidden = [], None  # hidden: the indentation of what hides the lines below it
    for line in DOCTEST.sub("", docstring.expandtabs()).splitlines():
        text = line.strip()
        indentation = len(line) - len(line.lstrip())
        if hidden is not None:
            if not text or indentation > hidden:
                continue
            hidden = None
        directive = DIRECTIVE.match(text)
        if directive and directive[1] in KEPT_DIRECTIVES:
            text = text[directive.end() :].strip()
        elif directive:
            hidden = indentation
            text = ""
        elif text.endswith("::"):
            hidden = indentation
            text = text[:-1] + "\n"
        elif "::=" in text or TARGET.match(text):  # a rule of grammar, a link's target
            continue
        elif text and not re.search(r"[^\W_]", text):  # an underline
            continue
        lines.append(text.removeprefix(".. "))
    text = PLACEHOLDER.sub("", EMPHASIS.sub(r"\2", ROLE.sub(r"\1", "\n".join(lines))))
    paragraphs = [" ".join(p.split()) for p in re.split(r"\n\s*\n", text)]
    return "\n".join(p for p in paragraphs if is_prose(p))


def is_prose(paragraph: str) -> bool:
    """Tell sentences from signatures, drawings and rows of numbers."""
    letters = sum(map(str.isalpha, paragraph)) + paragraph.count(" ")
    return (
        letters > 0.6 * len(paragraph)
        and paragraph != "Examples"
        and not SIGNATURE.fullmatch(paragraph)
    )
