"""What the docstrings promise."""

import ast
import importlib
import inspect
import re
import warnings
from functools import cache
from types import SimpleNamespace

import api
from helpers.texts import ROOT, import_statements, read

from transformer_core.layers import Linear

MODULES = sorted(ROOT.glob("transformer_core/**/*.py"))
TESTS = sorted(ROOT.glob("tests/**/test_*.py"))
LABEL = r"eq:[a-z0-9]+(?:-[a-z0-9]+)*"


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


@cache
def tree(path):
    return ast.parse(read(path))


def definitions(path):
    """The classes and functions of a module, without what it imports."""
    return {
        node.name: node
        for node in tree(path).body
        if isinstance(node, (ast.ClassDef, ast.FunctionDef))
    }


def imported_elsewhere():
    """What another module of the package or a test imports: (module, name)."""
    return {
        (node.module, alias.name)
        for path in MODULES + TESTS
        for node in import_statements(read(path))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def docstrings(path):
    """Every docstring of a module, joined."""
    found = [
        ast.get_docstring(node)
        for node in ast.walk(tree(path))
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


def test_every_public_name_has_a_docstring():
    public = imported_elsewhere()
    undocumented = []
    for path in MODULES:
        module = importlib.import_module(name_of(path))
        assert module.__doc__, path
        undocumented += [
            (path, name)
            for name, node in definitions(path).items()
            if (name_of(path), name) in public
            and not ast.get_docstring(node)
            and not is_cache(getattr(module, name))
        ]
    assert undocumented == []


def is_cache(value):
    """Tell a named tuple, whose fields say it all."""
    return isinstance(value, type) and issubclass(value, tuple)


def test_modules_compile_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for path in MODULES:
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


def test_remarks_after_the_parameters_are_not_printed_as_parameters():
    lines = inspect.getdoc(Linear).splitlines()
    app = SimpleNamespace(srcdir=ROOT)
    api.link(app, "class", "Linear", Linear, {}, lines)
    remark = next(i for i, line in enumerate(lines) if line.startswith("W starts uniform"))
    assert remark < lines.index("Parameters")
    assert sum("W starts uniform" in line for line in lines) == 1
