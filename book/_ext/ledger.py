"""The equation ledger: every gradient equation, its function, its tests and their errors.

``python book/_ext/ledger.py`` measures the errors, and stores them where what is stored does not
hold; with the report of a run of all tests it says what does not hold, as `make test` asks.
"""

import ast
import math
import os
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective
from stored import RECORDED, computed_with, read_json, sentence, write_json

ROOT = Path(__file__).resolve().parents[2]
STORE = "book/ledger.json"
GROUPS = {  # what the tests measure: without tests/parity, and there, where PyTorch is installed
    "NumPy": ("Errors of central differences and the complex step", ["numpy", "scipy", "sympy"]),
    "PyTorch": ("Errors against PyTorch", ["numpy", "torch"]),
}
ROUNDING = 1e-15  # errors are not told apart below it, nor above it within a factor of 10
WITNESSES = [  # its name in the report, in the book, and whether it leaves an error
    ("central-differences", "central", True),
    ("complex-step", "complex", True),
    ("sympy", "SymPy: exact", False),
    ("pytorch", "PyTorch", True),
]
GRADIENT = r"eq:[a-z0-9-]+-backward[a-z0-9-]*"


class Function(NamedTuple):
    path: str
    name: str
    line: int


def setup(app):
    app.add_directive("equation-ledger", EquationLedger)
    app.connect("builder-inited", take_the_checks)
    app.connect("env-get-outdated", lambda *_: ["book/ledger"])
    return {"parallel_read_safe": True}


def take_the_checks(app):
    """Take what the tests have measured as it is stored."""
    store = read_json(Path(app.srcdir) / STORE)
    app.env.equation_checks = checks = {}
    for group in store.values():
        for label, found in group["checks"].items():
            check = checks.setdefault(label, {"errors": {}, "tests": []})
            check["errors"] |= found["errors"]
            check["tests"] += found["tests"]
    app.env.equation_checks_from = [
        sentence(GROUPS[name][0], group["executed"]) for name, group in store.items()
    ]


def tests_of(root, group):
    """The files of a group that witness an equation."""
    parity = root / "tests" / "parity"
    return [
        path
        for path in sorted(root.glob("tests/**/test_*.py"))
        if "mark.equation" in path.read_text(encoding="utf-8")
        and (parity in path.parents) == (group == "PyTorch")
    ]


def measure(root, group):
    """Run the tests of a group that witness an equation: label to tests and errors."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", *map(str, tests_of(root, group))]
        command += ["-m", "equation", "-n", "2", f"--junitxml={report}"]
        environment = os.environ | RECORDED
        result = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
        if result.returncode:
            raise ExtensionError(f"equation ledger: a check fails\n{result.stdout}")
        return read_report(report, group)


def read_report(report, group):
    """What tests of a group have measured: label to tests and largest errors, as they are shown."""
    checks = {}
    for case in ElementTree.parse(report).iter("testcase"):
        if case.get("classname").startswith("tests.parity") != (group == "PyTorch"):
            continue
        properties = [(p.get("name"), p.get("value")) for p in case.iter("property")]
        found = dict(properties)
        file = case.get("classname").replace(".", "/") + ".py"
        test = f"{file}::{case.get('name').partition('[')[0]}"
        for label in (value for name, value in properties if name == "equation"):
            check = checks.setdefault(label, {"errors": {}, "tests": []})
            check["tests"] = sorted({*check["tests"], test})
            if "witness" in found:
                errors, witness = check["errors"], found["witness"]
                error = float(f"{float(found['error']):.0e}")
                errors[witness] = max(errors.get(witness, 0.0), error)
    return checks


def differences(stored, checks):
    """Say in which equations what is stored does not hold, if these are the checks."""
    for label in sorted(stored | checks):
        one, other = (
            {"tests": [], "errors": {}} | each.get(label, {}) for each in (stored, checks)
        )
        if one["tests"] != other["tests"]:
            yield f"{label}: expected {one['tests']}, got {other['tests']}"
        for witness in sorted(one["errors"] | other["errors"]):
            errors = [each["errors"].get(witness, math.inf) for each in (one, other)]
            least, largest = sorted(max(error, ROUNDING) for error in errors)
            if not largest <= 10 * least:
                yield f"{label}, {witness}: expected an error like {errors[0]}, got {errors[1]}"


def main(report=None):
    """Measure the errors and store what does not hold, or compare them with a report."""
    store = read_json(ROOT / STORE)
    if report:
        found = {group: read_report(report, group) for group in GROUPS}
        wrong = [
            why
            for group, checks in found.items()
            if checks
            for why in differences(store[group]["checks"], checks)
        ]
        sys.exit("\n".join([*wrong, "make ledger"]) if wrong else 0)
    for group, (_, packages) in GROUPS.items():
        if group == "PyTorch" and find_spec("torch") is None:
            print(f"ledger, {group}: not measured, since it is not installed")
            continue
        checks = measure(ROOT, group)
        if group not in store or any(differences(store[group]["checks"], checks)):
            store[group] = {"executed": computed_with(*packages), "checks": checks}
    write_json(ROOT / STORE, store)


def gradient_equations(root):
    """The labelled gradient equations of the pages, in the order of the book."""
    pages = [page.read_text("utf-8") for page in sorted(root.glob("book/[0-9]*.md"))]
    return re.findall(rf"\(({GRADIENT})\)\s*$", "\n".join(pages), re.MULTILINE)


def functions(root):
    """The function or method whose docstring names an equation, an op before a layer."""
    found = {}
    paths = root.glob("transformer_core/**/*.py")
    for path in sorted(paths, key=lambda path: ("ops" not in path.parts, path)):
        for name, node in definitions(ast.parse(path.read_text("utf-8"))):
            place = path.relative_to(root).as_posix()
            for label in re.findall(GRADIENT, ast.get_docstring(node) or ""):
                found.setdefault(label, Function(place, name, node.lineno))
    return found


def definitions(owner, prefix=""):
    """Functions and methods with their dotted names."""
    for node in owner.body:
        if isinstance(node, ast.ClassDef):
            yield from definitions(node, f"{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node


class EquationLedger(SphinxDirective):
    """The ledger as a table; an equation without function or test stops the build."""

    def run(self):
        root = Path(self.env.srcdir)
        checks = self.env.equation_checks
        known = functions(root)
        labels = gradient_equations(root)
        lacking = [
            *(f"no docstring names {label}" for label in labels if label not in known),
            *(f"no test witnesses {label}" for label in labels if label not in checks),
        ]
        if lacking:
            raise ExtensionError("equation ledger: " + "; ".join(lacking))
        rows = ["| Equation | Function | Witnesses | Tests |", "|---|---|---|---|"]
        for label in labels:
            path, name, line = known[label]
            place = self.repository_link(path, line)
            tests = "<br>".join(
                f"{name.removeprefix('test_').replace('_', ' ')} (`{file}`)"
                for file, name in (test.split("::") for test in checks[label]["tests"])
            )
            rows.append(
                f"| {{eq}}`{label}`<br>{title(label)} "
                f"| {{ref}}`{name} <{listing_id(path, name)}>`<br>{place} "
                f"| {witnesses(checks[label]['errors'])} | {tests} |"
            )
        rows += ["", "\n\n".join(self.env.equation_checks_from)]
        table, *_ = tables = self.parse_text_to_nodes("\n".join(rows))
        table["classes"].append("ledger")
        return tables

    def repository_link(self, path, line):
        """The line of a file: a link, where the address of the repository is known."""
        options = self.config.html_theme_options
        if not options.get("repository_url"):
            return f"`{path}:{line}`"
        base = f"{options['repository_url']}/blob/{options['repository_branch']}"
        return f"[`{path}:{line}`]({base}/{path}#L{line})"


def title(label):
    """An equation's name, from its label: what is differentiated, and by what or in which form."""
    return (
        label.removeprefix("eq:")
        .replace("-backward-", ", ")
        .replace("-backward", "")
        .replace("-", " ")
    )


def witnesses(errors):
    """What the tests of an equation have measured."""
    lines = [
        f"{name} [{errors[witness]:.0e}]{{.pasted-text}}" if error else name
        for witness, name, error in WITNESSES
        if witness in errors
    ]
    return "<br>".join(lines) or "–"


def listing_id(path, name):
    """The place in the book where a function of the package is shown."""
    return f"listing-{path.removesuffix('.py')}-{name}".replace("/", "-").lower()


if __name__ == "__main__":
    main(*sys.argv[1:])
