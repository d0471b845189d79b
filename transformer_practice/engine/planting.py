"""How to plant a mistake in the package, and to put it right again.

A mutant changes some text of one file. A local variable of that file may have another name by now:
the text is then found word by word, with one name in the place of another. Planting compiles the
changed file, gives the functions of the package their new code and defaults, and binds constants
and the attributes of classes anew, so that everyone who has imported them sees the mistake.
"""

import ast
import builtins
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib import import_module
from inspect import isclass, isfunction, unwrap
from itertools import accumulate, pairwise
from keyword import iskeyword
from pathlib import Path
from symtable import symtable
from types import CodeType, ModuleType
from typing import NamedTuple

from transformer_practice.mistakes import MUTANTS, Mutant

PACKAGE = "transformer_core"
NAME = re.compile(r"(?<![\w.])[^\W\d]\w*")  # and not an attribute's


class Place(NamedTuple):
    """Where a text of a mutant stands in a source, and what the mistake makes of it."""

    start: int
    end: int
    wrong: str


def edited(source: str, mutant: Mutant) -> str:
    """Return the source of a mutant's file with the mistake in it.

    Raises
    ------
    ValueError
        As ``places``, or if the mistake reads a variable that is not there.
    """
    for start, end, wrong in reversed(places(source, mutant)):
        source = source[:start] + wrong + source[end:]
    if lost := unbound(source):
        raise ValueError(f"{mutant.name}: expected variables of {mutant.file}, got {lost}")
    return source


def places(source: str, mutant: Mutant) -> list[Place]:
    """Find the texts of a mutant in the source of its file, in the order in which they stand.

    Raises
    ------
    ValueError
        If a text does not stand there exactly once, or two overlap.
    """
    functions = renamings(source, texts_of(mutant.file) or tuple(mutant.edits))
    found = []
    for right, wrong in mutant.edits.items():
        spans = [match.span() for match in stands(right, source)] or [
            span
            for function in functions
            for span, new in function.find(right, source)
            if new.items() <= function.new.items()
        ]
        if not spans:  # it may end within a word
            spans = [match.span() for match in re.finditer(re.escape(right), source)]
        if len(spans) != 1:
            raise ValueError(
                f"{mutant.name}: expected this text once in {mutant.file}, "
                f"found it {len(spans)} times: {right.strip()}"
            )
        start, end = spans[0]
        for function in functions:
            if function.start <= start < function.end:
                wrong = function.renamed(wrong)
        found.append(Place(start, end, wrong))
    found.sort()
    for one, other in pairwise(found):
        if one.end > other.start:
            raise ValueError(f"{mutant.name}: expected texts apart, two overlap in {mutant.file}")
    return found


class Function(NamedTuple):
    """A function or method in a source, its variables, and what the catalogue calls them."""

    start: int
    end: int
    names: set[str]  # that it reads or binds
    local: set[str]  # that it binds, and no parameters
    new: dict[str, str]  # name in the catalogue to name in the source

    def renamed(self, text: str) -> str:
        return NAME.sub(lambda name: self.new.get(name[0], name[0]), text)

    def find(self, text, source):
        """Find a text but for names that the function lacks: its span, and what stands for them."""
        for match in stands(text, source, self):
            new = {old: name for old, name in match.groupdict().items() if old != name}
            if len(set(new.values())) == len(new):
                yield match.span(), new


@cache
def texts_of(file: str) -> tuple[str, ...]:
    """Return the texts of the catalogue that stand in a file."""
    forms = [form for mutant in MUTANTS.values() for form in mutant.in_all_forms()]
    return tuple({text: None for form in forms if form.file == file for text in form.edits})


@lru_cache(16)
def renamings(source: str, texts: tuple[str, ...]) -> list[Function]:
    """Find the functions of a source, and the new names of their local variables.

    A text that stands nowhere tells them, if one function alone has it with other names, which
    are in none of the texts.
    """
    known = set(NAME.findall(" ".join(texts)))
    functions = list(functions_of(source))
    for text in (text for text in texts if not any(stands(text, source))):
        found = [
            (function, new)
            for function in functions
            for _, new in function.find(text, source)
            if set(new.values()) <= function.local - known
        ]
        if len(found) == 1:
            function, new = found[0]
            function.new.update(new)
    return functions


def functions_of(source: str) -> Iterator[Function]:
    starts = [0, *accumulate(map(len, source.splitlines(keepends=True)))]
    owners: list[ast.Module | ast.ClassDef] = [ast.parse(source)]
    for node in owners:
        for child in node.body:
            if isinstance(child, ast.ClassDef):
                owners.append(child)
            elif isinstance(child, ast.FunctionDef):
                used = [n for n in ast.walk(child) if isinstance(n, ast.Name)]
                parameters = {n.arg for n in ast.walk(child) if isinstance(n, ast.arg)}
                local = {n.id for n in used if isinstance(n.ctx, ast.Store)} - parameters
                names = parameters | {n.id for n in used}
                yield Function(starts[child.lineno - 1], starts[child.end_lineno], names, local, {})


def stands(text, source, function=None):
    """Find a text in a source, whatever white space there is between its words and signs.

    In a function, any word may stand for a name that is not one of the function's.
    """
    parts = []
    for token in re.finditer(r"\w+|[^\w\s]", text):
        word = token[0]
        part = rf"\b{word}\b" if re.match(r"\w", word) else re.escape(word)
        if function and NAME.match(text, token.start()) and not iskeyword(word):
            if rf"\b(?P<{word}>\w+)\b" in parts:
                part = rf"\b(?:(?P={word})|{word})\b"
            elif word not in function.names:
                part = rf"\b(?P<{word}>\w+)\b"
        parts.append(part)
    before, _, after = map(re.escape, text.partition(text.strip()))
    pattern = re.compile(before + r"\s*".join(parts) + after)
    span = (function.start, function.end) if function else (0, len(source))
    return pattern.finditer(source, *span)


def unbound(source: str) -> set[str]:
    """Return the variables that the functions of a source read and nothing binds."""
    module = symtable(source, "", "exec")
    tables, read = [module], set()
    for table in tables:
        tables += table.get_children()
        read |= {s.get_name() for s in table.get_symbols() if s.is_global()}
    return read - set(module.get_identifiers()) - vars(builtins).keys()


def plant(mutant: Mutant) -> list[tuple]:
    """Put a mistake into the package.

    What other modules have computed from a constant while they were imported stays as it is.

    Returns
    -------
    list of tuple
        What was there before: owner, name of its attribute, value.

    Raises
    ------
    ValueError
        As ``edited``, or if nothing changes, or a function gets or loses free variables.
    """
    path = f"transformer_core.{mutant.file.removesuffix('.py').replace('/', '.')}"
    module = import_module(path)
    changed = ModuleType(module.__name__)
    exec(compiled(mutant, module.__file__), vars(changed))
    changes = list(differences(module, changed))
    if not changes:
        raise ValueError(f"{mutant.name}: expected something to change, nothing did")
    originals = [(owner, name, right) for owner, name, right, _ in changes]
    try:
        set_everywhere((owner, name, wrong) for owner, name, _, wrong in changes)
    except ValueError as error:  # a function has other free variables, such as super()'s
        set_everywhere(originals)
        raise ValueError(f"{mutant.name}: {error}") from error
    return originals


@lru_cache(1000)
def compiled(mutant: Mutant, path: str) -> CodeType:
    """Compile the file of a mutant with the mistake in it, once."""
    source = edited(Path(path).read_text(encoding="utf-8"), mutant)
    return compile(source, path, "exec")


@contextmanager
def planted(mutant):
    """Run the package with a mistake in it, and put it right afterwards."""
    originals = plant(mutant)
    try:
        yield
    finally:
        set_everywhere(originals)


def differences(right, wrong):
    """Find what to set for one module or class to be as another: owner, name, value, new value."""
    for name, value in vars(right).items():
        other = vars(wrong).get(name, value)
        if other is value:
            continue
        if isclass(value) and equal_values(value, other):  # made anew, perhaps otherwise
            yield from differences(value, other)
        elif function(value) and function(other) and type(value) is type(other):
            for part in ("__code__", "__defaults__", "__kwdefaults__"):
                old = getattr(function(value), part)
                new = getattr(function(other), part)
                if not equal_values(old, new):
                    yield function(value), part, old, new
        elif not name.startswith("__") and not equal_values(value, other):
            yield right, name, value, other


def function(value):
    """Return the function that a method, a property or a decorated function wraps, or None."""
    inner = unwrap(getattr(value, "fget", value))
    return inner if isfunction(inner) else None


def equal_values(value, other):
    if isinstance(value, CodeType):
        return value == other
    return repr(value) == repr(other)


def set_everywhere(attributes):
    """Set attributes; those of a module also where modules or tests have imported them by name."""
    number = len(sys.modules)
    for owner, name, value in attributes:
        owners = [owner]
        if isinstance(owner, ModuleType):
            old = vars(owner)[name]
            owners = [m for m in modules((PACKAGE, "tests."), number) if vars(m).get(name) is old]
        for each in owners:
            setattr(each, name, value)
    for cached in remembering(number):
        cached.cache_clear()


@lru_cache(2)
def modules(beginnings: str | tuple[str, ...], number: int) -> list[ModuleType]:
    """Return the modules whose names begin so; ``number`` is of all that are imported."""
    return [module for name, module in sys.modules.items() if name.startswith(beginnings)]


@lru_cache(1)
def remembering(number: int) -> list:
    """Return the functions of the package that remember results; ``number`` as of ``modules``."""
    package = map(vars, modules(PACKAGE, number))
    return [value for names in package for value in names.values() if hasattr(value, "cache_clear")]
