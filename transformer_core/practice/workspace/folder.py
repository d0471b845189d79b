"""The files of a workspace: one a chapter, written once, and read anew each time."""

import ast
import builtins
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import sleep
from types import FunctionType, ModuleType
from typing import NamedTuple

from transformer_core.practice.exercise import (
    Exercise,
    names_of,
    stub,
    written_in,
)
from transformer_core.practice.exercises import every_exercise
from transformer_core.practice.running import Failed, NotWritten, call

README = "README.txt"
SECONDS_BETWEEN_LOOKS = 0.3
SECONDS_TO_RUN = 5.0  # a file, of which the functions are not called yet
FIRST_STEPS = """\
Write it yourself
=================

There is one file for each chapter, with the functions that you can write: what they are given,
what they return, and the label of their equation in the book. The code is yours. Begin with
120_linear.py, or with any chapter that you have read.

1. Open a file. Take away "raise NotImplementedError" and write the function.

2. Have it examined, here and on every save:

       python -m transformer_core practice check {folder} linear
       python -m transformer_core practice check {folder} --watch

   You may write a backward pass alone: it is then given the package's own cache, which
   transformer_core/ops shows. Beside a forward pass of yours it is given what that returns as its
   second value, whatever you have put there.

3. If you are stuck, there are three hints for each, one at a time:

       python -m transformer_core practice hint {folder} linear

4. See what you have done so far, and train a model with it:

       python -m transformer_core practice ledger {folder}
       python -m transformer_core practice train {folder} encoder

A function may need others: write them into the same file, or use the package's.

    from transformer_core import ops

In a training, ops.softmax is then yours, too, if yours is right: treat what it returns beside its
output as a parcel, which ops.softmax_backward opens.

The files are yours. No command writes into them. What was examined, and which hints you have had,
is in progress.json; ledger.html is written anew each time.
"""


class Own(NamedTuple):
    """What a reader has of an exercise.

    A function is None where there is none, or only a stub. A problem says why nothing can be
    examined.
    """

    exercise: Exercise
    functions: tuple[Callable | None, ...]
    problem: str = ""

    @property
    def written(self) -> bool:
        return any(self.functions)


def start(folder: Path) -> tuple[list[str], list[str]]:
    """Write a file for each chapter, and the first steps, where there is none yet.

    Returns
    -------
    written, left : list of str
        Names of files: those that are new, and those that were there and stay as they are.
    """
    texts = {README: FIRST_STEPS.format(folder=folder)}
    texts |= {file_of(name): text_of(name, group) for name, group in chapters().items()}
    folder.mkdir(parents=True, exist_ok=True)
    written, left = [], []
    for name, text in texts.items():
        try:
            with (folder / name).open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
            written.append(name)
        except FileExistsError:
            left.append(name)
    return written, left


def chapters() -> dict[str, list[Exercise]]:
    """Return the exercises of each chapter, in the order of the book."""
    groups: dict[str, list[Exercise]] = {}
    for exercise in every_exercise():
        groups.setdefault(exercise.chapter, []).append(exercise)
    return dict(sorted(groups.items()))


def file_of(chapter: str) -> str:
    """Return the name of a chapter's file."""
    return f"{chapter}.py"


def text_of(chapter: str, exercises: list[Exercise]) -> str:
    """Return the file of a chapter as the reader gets it."""
    header = f'"""What you can write of the chapter {chapter}: book/{chapter}.md."""'
    parts = [f"{header}\n\nimport numpy as np", *map(stub, exercises)]
    return "\n\n\n".join(parts) + "\n"


def read(folder: Path, chapter: str) -> list[Own]:
    """Return what a reader has of a chapter's exercises, by what its file holds now.

    The file is run as a module of its own, with a time limit.
    """
    exercises, path = chapters()[chapter], folder / file_of(chapter)
    if not path.exists():
        return [missing(exercise) for exercise in exercises]
    try:
        stubs, module = load(path)
    except Failed as error:
        problem = f"{path.name} does not run: {error}"
        return [missing(exercise, problem) for exercise in exercises]
    return [own_of(exercise, stubs, vars(module)) for exercise in exercises]


def missing(exercise, problem=""):
    return Own(exercise, (None,) * len(exercise.functions), problem)


def own_of(exercise, stubs, namespace):
    """Find the functions of an exercise in a module, without those that are stubs."""
    name, at = exercise.name, ""
    if names_of(exercise)[0] != name:  # methods of a class
        if not isinstance(namespace.get(name, type), type):
            return missing(exercise, f"{name}: expected a class")
        at = f"{name}."
    found = written_in(exercise, namespace)
    functions = []
    for title, function in zip(names_of(exercise), found, strict=True):
        if function is not None and not callable(function):
            return missing(exercise, f"{at}{title}: expected a function")
        functions.append(None if f"{at}{title}" in stubs else function)
    return Own(exercise, tuple(functions))


def load(path: Path) -> tuple[set[str], ModuleType]:
    """Run a reader's file; return the names of its stubs, and its module.

    Raises
    ------
    Failed
        If it is not Python, raises something, or does not come to its end.
    """
    try:
        source = path.read_bytes()
        tree = ast.parse(source, str(path))
        code = compile(source, str(path), "exec")
    except SyntaxError as error:
        at = f"line {error.lineno}: " if error.lineno else ""
        raise Failed(f"{at}{error.msg}") from None
    except (OSError, ValueError) as error:
        raise Failed(str(error)) from None
    module = ModuleType(f"own_{path.stem}")
    vars(module).update(__file__=str(path), __builtins__=builtins)
    sys.modules[module.__name__] = module
    try:
        call(FunctionType(code, vars(module)), seconds=SECONDS_TO_RUN)
    except NotWritten:  # a module returns nothing
        pass
    except Failed as error:
        raise Failed(", ".join(map(str.strip, str(error).splitlines()))) from None
    return set(stubs_in(tree)), module


def stubs_in(tree: ast.Module) -> Iterator[str]:
    """Yield the names of functions and methods that have no code: ``FeedForward.backward``."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and is_stub(node):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and is_stub(method):
                    yield f"{node.name}.{method.name}"


def is_stub(function):
    return all(map(says_nothing, function.body))


def says_nothing(statement):
    match statement:
        case ast.Pass() | ast.Expr(ast.Constant()):
            return True
        case ast.Raise(exc=ast.Name("NotImplementedError")):
            return True
        case ast.Raise(exc=ast.Call(ast.Name("NotImplementedError"))):
            return True
    return False


def check_workspace(folder: Path) -> None:
    """Raise ``ValueError`` unless a folder has the file of a chapter."""
    if not any((folder / file_of(chapter)).is_file() for chapter in chapters()):
        raise ValueError(
            f"{folder}: expected a folder that 'practice start' has written, found no chapter "
            "in it"
        )


def changes(folder: Path, before: dict) -> Iterator[list[str]]:
    """Yield, for ever, the chapters whose files have changed since the last time."""
    while True:
        sleep(SECONDS_BETWEEN_LOOKS)
        now = states(folder)
        changed = [chapter for chapter in now if now[chapter] != before[chapter]]
        before = now
        if changed:
            yield changed


def states(folder: Path) -> dict:
    """Return what tells a file that was saved from what it was before, for each chapter."""
    return {chapter: state_of(folder / file_of(chapter)) for chapter in chapters()}


def state_of(path):
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
