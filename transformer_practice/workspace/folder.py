"""The files of a workspace: one a chapter, written once, and read anew each time."""

import ast
import builtins
import sys
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from textwrap import fill
from time import sleep
from types import FunctionType, ModuleType
from typing import NamedTuple

from transformer_practice.engine.exercise import Exercise, names_of, stub, written_in
from transformer_practice.engine.pages import numbered, title_of
from transformer_practice.engine.running import Failed, NotWritten, call, returns_nothing
from transformer_practice.exercises import every_exercise

README = "README.txt"
FIRST = "120_linear"  # with which the first steps begin
COLUMNS = 88
ALIKE = 0.8  # of names: from there on, one is meant to be the other
SECONDS_BETWEEN_LOOKS = 0.3
SECONDS_TO_RUN = 5.0  # a file, of which the functions are not called yet
FIRST_STEPS = """\
Write it yourself
=================

There is one file for each chapter, with the functions that you can write: what they are given,
what they return, and the number of their equation in the book. The code is yours. Begin with
120_linear.py, or with any chapter that you have read.

1. Open a file. Remove "raise NotImplementedError" and write the function.

2. Have it examined, once or on every save:

       python -m transformer_practice check {folder} linear
       python -m transformer_practice check {folder} --watch

   You may write only the backward pass: it is then given the package's own cache, which you can
   see in transformer_core/ops. If you have written the forward pass, too, the backward pass is
   given what your forward pass returns as its second value, whatever you have put there.

3. If you are stuck, there are three hints for each, one at a time:

       python -m transformer_practice hint {folder} linear

4. See what you have done so far, and train a model with it:

       python -m transformer_practice ledger {folder}
       python -m transformer_practice train {folder} encoder

A function may need others: write them into the same file, or use the package's.

    from transformer_core import ops

When you train a model, ops.softmax is then your own function, if it is right. So do not look into
the second value that it returns: pass it on to ops.softmax_backward, which is yours as well.

The files are yours. No command writes into them. The results of your examinations and the hints
that you have had are noted in progress.json; ledger.html is written anew each time.
"""


class Own(NamedTuple):
    """What a reader has of an exercise.

    A function is None where there is none, or only a stub; ``absent`` are those of which the file
    has not even the name. A problem says why nothing can be examined.
    """

    exercise: Exercise
    functions: tuple[Callable | None, ...]
    problem: str = ""
    absent: tuple[str, ...] = ()

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
    texts |= {file_of(name): text_of(name) for name in chapters()}
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


@cache
def text_of(chapter: str) -> str:
    """Return the file of a chapter as the reader gets it."""
    return "\n\n\n".join([header_of(chapter), *map(stub_of, chapters()[chapter])]) + "\n"


def header_of(chapter: str) -> str:
    """Return the first lines of a chapter's file."""
    return wrapped(f'"""What you can write of {title_of(chapter)}."""\n\nimport numpy as np')


def stub_of(exercise: Exercise) -> str:
    """Return the text from which a reader starts, with equations as the book numbers them."""
    return wrapped(numbered(stub(exercise)))


def wrapped(text: str) -> str:
    """Break the lines of prose that are too long, and keep their indent."""
    return "\n".join(map(wrapped_line, text.splitlines()))


def wrapped_line(line):
    if len(line) <= COLUMNS:
        return line
    text = line.lstrip()
    indent = " " * (len(line) - len(text))
    return fill(
        text,
        COLUMNS,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def lacking(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the files of chapters that have not all of its exercises, and which they lack."""
    for chapter, exercises in chapters().items():
        tree = parsed(folder / file_of(chapter))
        if tree:
            there = {getattr(node, "name", "") for node in tree.body}
            names = [each.name for each in exercises]
            lacks = [name for name in names if name not in there]
            if lacks:
                yield file_of(chapter), lacks


def strays(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield what is written in the file of another chapter alone: its name, where, and its own."""
    groups = chapters()
    homes = {each.name: chapter for chapter in groups for each in groups[chapter]}
    begun = [chapter for chapter in groups if not untouched(folder, chapter)]
    found = {chapter: with_code(folder / file_of(chapter)) for chapter in begun}
    for chapter, names in found.items():
        for name in sorted(names & homes.keys()):
            home = homes[name]
            if home != chapter and name not in found.get(home, ()):
                yield name, file_of(chapter), file_of(home)


def with_code(path):
    """Return the names of the functions and classes of a file that are more than stubs."""
    tree = parsed(path)
    written = functions_in(tree).items() if tree else ()
    return {title.partition(".")[0] for title, function in written if not is_stub(function)}


def parsed(path):
    """Return the syntax tree of a file; None if it cannot be read."""
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def last_written(folder: Path) -> str:
    """Return the chapter whose file was saved last, of those that are no more as they were."""
    begun = [chapter for chapter in chapters() if not untouched(folder, chapter)]
    return max(begun, key=lambda chapter: state_of(folder / file_of(chapter)), default=FIRST)


def untouched(folder: Path, chapter: str) -> bool:
    """Tell whether the file of a chapter is as :func:`start` writes it, or is not there."""
    try:
        return (folder / file_of(chapter)).read_bytes() == text_of(chapter).encode()
    except OSError as error:
        return isinstance(error, FileNotFoundError)


def read(path: Path, exercises: Sequence[Exercise]) -> list[Own]:
    """Return what a reader has of some exercises, by what a file holds now.

    The file is run as a module of its own, with a time limit.
    """
    if not path.exists():
        return [missing(exercise) for exercise in exercises]
    try:
        stubs, module = load(path)
    except Failed as error:
        problem = f"{path.name} does not run: {in_one_line(error)}"
        return [missing(exercise, problem) for exercise in exercises]
    return [own_of(exercise, stubs, module) for exercise in exercises]


def in_one_line(error: Failed) -> str:
    return ", ".join(map(str.strip, str(error).splitlines()))


def missing(exercise, problem="", absent=()):
    return Own(exercise, (None,) * len(exercise.functions), problem, absent)


def own_of(exercise, stubs, module):
    """Find the functions of an exercise in a module, without those that are stubs."""
    name, at, namespace = exercise.name, "", vars(module)
    if names_of(exercise)[0] != name:  # methods of a class
        if name not in namespace:
            return missing(exercise, meant(name, module, type), (name,))
        if not isinstance(namespace[name], type):
            return missing(exercise, f"{name}: expected a class")
        at, module = f"{name}.", namespace[name]
    found = written_in(exercise, namespace)
    functions, absent = [], []
    for title, function in zip(names_of(exercise), found, strict=True):
        if function is None:
            absent.append(f"{at}{title}")
            problem = meant(title, module, FunctionType, at)
            if problem:
                return missing(exercise, problem, tuple(absent))
        elif not callable(function):
            return missing(exercise, f"{at}{title}: expected a function")
        functions.append(None if f"{at}{title}" in stubs else function)
    return Own(exercise, tuple(functions), absent=tuple(absent))


def meant(name, owner, kind, at=""):
    """Say which name of the reader's stands for one that is not there; nothing if none does.

    ``owner`` is the module, or the class, in which it is looked for.
    """
    module = getattr(owner, "__module__", owner.__name__)
    near = [
        each
        for each, value in vars(owner).items()
        if isinstance(value, kind)
        and value.__module__ == module
        and each not in titles()
        and likeness(each, name) >= ALIKE
    ]
    return f"there is no {at}{name}: is {near[0]} meant to be it?" if near else ""


def likeness(one, other):
    """Return how alike two names are, from 0 to 1, without the ending of backward passes."""
    end = "_backward"
    if one.endswith(end) and other.endswith(end):
        one, other = one.removesuffix(end), other.removesuffix(end)
    return SequenceMatcher(None, one, other).ratio()


@cache
def titles():
    """Return the names of all functions, classes and methods that are asked for."""
    return {name for each in every_exercise() for name in (each.name, *names_of(each))}


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
        body = FunctionType(code, vars(module))
        call(returns_nothing, body, seconds=SECONDS_TO_RUN)
    except NotWritten:  # an empty file
        pass
    return stubs_in(tree), module


def stubs_in(tree: ast.Module) -> set[str]:
    """Name the functions and methods that have no code: ``FeedForward.backward``."""
    return {title for title, function in functions_in(tree).items() if is_stub(function)}


def functions_in(tree):
    """Return functions and methods by their names; of two of one name the last, as in Python."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            methods = (each for each in node.body if isinstance(each, ast.FunctionDef))
            found |= {f"{node.name}.{method.name}": method for method in methods}
    return found


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
            f"{folder}: expected a folder made by 'transformer-practice start', found no chapter "
            "in it"
        )


def changes(folder: Path, before: dict) -> Iterator[list[str]]:
    """Yield, for ever, the chapters whose files have changed since the last time."""
    while True:
        sleep(SECONDS_BETWEEN_LOOKS)
        if not folder.is_dir():
            raise ValueError(f"{folder}: the folder was being watched, and is gone")
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
