"""What the docstrings promise, and what an import brings along."""

import ast
import importlib
import re
import subprocess
import sys
import warnings
from functools import cache

import pytest
from texts import ROOT, read

MODULES = sorted(ROOT.glob("transformer_core/**/*.py"))
TESTS = sorted(ROOT.glob("tests/**/test_*.py"))
LABEL = r"eq:[a-z0-9]+(?:-[a-z0-9]+)*"


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def definitions(path):
    """The classes and functions of a module, without what it imports."""
    return {
        node.name: node
        for node in ast.parse(read(path)).body
        if isinstance(node, (ast.ClassDef, ast.FunctionDef))
    }


@cache
def imported_elsewhere():
    """What another module of the package or a test imports: (module, name)."""
    return {
        (node.module, alias.name)
        for path in MODULES + TESTS
        for node in ast.walk(ast.parse(read(path)))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def docstrings(path):
    """Every docstring of a module, joined."""
    found = [
        ast.get_docstring(node)
        for node in ast.walk(ast.parse(read(path)))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
    ]
    return "\n".join(filter(None, found))


def labels_in(texts):
    return {label for text in texts for label in re.findall(LABEL, text)}


def labels_of_the_book():
    pages = "\n".join(map(read, ROOT.glob("book/*.md")))
    label = rf"^\s*\$\$ \(({LABEL})\)$|^:label: ({LABEL})$"
    found = re.findall(label, pages, flags=re.MULTILINE)
    return {one or other for one, other in found}


def labels_of_the_marks():
    marks = rf'mark\.equation\(\s*"({LABEL})"'
    return {label for path in TESTS for label in re.findall(marks, read(path))}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_public_name_has_a_docstring(path):
    module = importlib.import_module(name_of(path))
    public = {name for module, name in imported_elsewhere() if module == name_of(path)}
    undocumented = [
        name
        for name, node in definitions(path).items()
        if name in public
        and not ast.get_docstring(node)
        and not is_cache(getattr(module, name))
    ]
    assert undocumented == []
    assert module.__doc__


def is_cache(value):
    """Tell a named tuple, whose fields say it all."""
    return isinstance(value, type) and issubclass(value, tuple)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_compile_without_a_warning(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile(read(path), path, "exec")


def test_every_equation_that_a_docstring_names_is_in_the_book():
    named = labels_in(map(docstrings, MODULES))
    assert sorted(named - labels_of_the_book()) == []


def test_every_equation_that_a_test_proves_is_in_the_book():
    assert sorted(labels_of_the_marks() - labels_of_the_book()) == []


def test_every_gradient_that_a_docstring_names_is_proved_by_a_test():
    named = labels_in(map(docstrings, MODULES))
    gradients = {label for label in named if "-backward" in label}
    assert gradients
    assert sorted(gradients - labels_of_the_marks()) == []


def modules_after(statement):
    """The top-level modules that a fresh interpreter holds after a statement."""
    code = (
        f"{statement}; import sys; print(*{{m.partition('.')[0] for m in sys.modules}})"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(result.stdout.split())


def test_the_package_imports_numpy_and_the_standard_library_alone():
    parts = """foundation ops layers models optim training gradient_check sentence tasks
        tasks.reconstruction tasks.dates tasks.bert practice""".split()
    imports = ", ".join(f"transformer_core.{part}" for part in parts)
    brought = modules_after(f"import transformer_core, {imports}")
    allowed = modules_after("import numpy.random") | sys.stdlib_module_names
    assert brought - allowed == {"transformer_core"}
