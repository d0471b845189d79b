"""Mistakes that people ship, and how to plant one of them in the package.

A mutant changes some text of one file. Planting it compiles the changed file and gives the
functions of the package their new code, so that everyone who has imported them runs it.
"""

from contextlib import contextmanager
from importlib import import_module
from inspect import isclass, isfunction
from pathlib import Path
from types import ModuleType

from mutants.catalogue import MUTANTS, NO_MISTAKE, Mutant

__all__ = ["MUTANTS", "NO_MISTAKE", "PLANTABLE", "Mutant", "plant", "planted"]

PLANTABLE = MUTANTS | {NO_MISTAKE.name: NO_MISTAKE}


def plant(mutant):
    """Give the functions of the package the code of the mutant.

    Returns
    -------
    dict of function to tuple
        What the functions had before: code, defaults, keyword defaults.

    Raises
    ------
    ValueError
        If a text of the mutant does not stand in its file exactly once, or nothing changes.
    """
    path = f"transformer_core.{mutant.file.removesuffix('.py').replace('/', '.')}"
    module = import_module(path)
    source = Path(module.__file__).read_text(encoding="utf-8")
    for right, wrong in mutant.edits.items():
        if source.count(right) != 1:
            raise ValueError(
                f"{mutant.name}: expected this text once in {mutant.file}, "
                f"found it {source.count(right)} times: {right.strip()}"
            )
        source = source.replace(right, wrong)

    changed = ModuleType(module.__name__)
    exec(compile(source, module.__file__, "exec"), vars(changed))
    replacements, originals = functions(changed), {}
    for name, function in functions(module).items():
        new = code(replacements[name])
        if new != code(function):
            originals[function] = code(function)
            function.__code__, function.__defaults__, function.__kwdefaults__ = new
    if not originals:
        raise ValueError(f"{mutant.name}: expected a function to change, none did")
    return originals


@contextmanager
def planted(mutant):
    """Run the package with a mistake in it, and put it right afterwards."""
    originals = plant(mutant)
    try:
        yield
    finally:
        for function, old in originals.items():
            function.__code__, function.__defaults__, function.__kwdefaults__ = old


def functions(module):
    """Return the functions and methods that a module defines, by their qualified names."""
    classes = [value for value in vars(module).values() if isclass(value)]
    return {
        value.__qualname__: value
        for owner in [module, *classes]
        for value in vars(owner).values()
        if isfunction(value) and value.__module__ == module.__name__
    }


def code(function):
    return function.__code__, function.__defaults__, function.__kwdefaults__
