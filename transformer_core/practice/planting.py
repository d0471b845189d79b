"""How to plant a mistake in the package, and to put it right again.

A mutant changes some text of one file. Planting it compiles the changed file, gives the functions
of the package their new code and defaults, and binds constants and the attributes of classes anew,
so that everyone who has imported them sees the mistake.
"""

import sys
from contextlib import contextmanager
from importlib import import_module
from inspect import isclass, isfunction, unwrap
from pathlib import Path
from types import CodeType, ModuleType

from transformer_core.practice.catalogue import Mutant


def plant(mutant: Mutant) -> list[tuple]:
    """Put a mistake into the package.

    What other modules have computed from a constant while they were imported stays as it is.

    Returns
    -------
    list of tuple
        What stood there before: owner, name of its attribute, value.

    Raises
    ------
    ValueError
        If a text of the mutant does not stand in its file exactly once, nothing changes, or a
        function gets or loses free variables.
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
    changes = list(differences(module, changed))
    if not changes:
        raise ValueError(f"{mutant.name}: expected something to change, nothing did")
    originals = [(owner, name, right) for owner, name, right, _ in changes]
    try:
        put((owner, name, wrong) for owner, name, _, wrong in changes)
    except (
        ValueError
    ) as error:  # a function has other free variables, such as super()'s
        put(originals)
        raise ValueError(f"{mutant.name}: {error}") from error
    return originals


@contextmanager
def planted(mutant):
    """Run the package with a mistake in it, and put it right afterwards."""
    originals = plant(mutant)
    try:
        yield
    finally:
        put(originals)


def differences(right, wrong):
    """Find what to set for one module or class to be as another: owner, name, value, new value."""
    for name, value in vars(right).items():
        other = vars(wrong).get(name, value)
        if other is value:
            continue
        if isclass(value) and same(value, other):  # made anew, perhaps otherwise
            yield from differences(value, other)
        elif function(value) and function(other) and type(value) is type(other):
            for part in ("__code__", "__defaults__", "__kwdefaults__"):
                old = getattr(function(value), part)
                new = getattr(function(other), part)
                if not same(old, new):
                    yield function(value), part, old, new
        elif not name.startswith("__") and not same(value, other):
            yield right, name, value, other


def function(value):
    """Return the function that a method, a property or a decorated function wraps, or None."""
    inner = unwrap(getattr(value, "fget", value))
    return inner if isfunction(inner) else None


def same(value, other):
    if isinstance(value, CodeType):
        return value == other
    return repr(value) == repr(other)


def put(attributes):
    """Set attributes; those of a module also where other modules have imported them by name."""
    package = [module for name, module in sys.modules.items() if ours(name)]
    for owner, name, value in attributes:
        owners = [owner]
        if isinstance(owner, ModuleType):
            old = vars(owner)[name]
            owners = [module for module in package if vars(module).get(name) is old]
        for each in owners:
            setattr(each, name, value)
    for module in package:
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def ours(module_name):
    return module_name.partition(".")[0] == "transformer_core"
