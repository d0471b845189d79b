"""The equation ledger: every gradient equation, its function, its tests and their errors.

``python book/_ext/ledger.py`` measures the errors and stores them, where what is stored does not
hold.
"""

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from stamps import (
    RECORDED,
    changes,
    executed_now,
    kept,
    sentence,
    stamp,
)

ROOT = Path(__file__).resolve().parents[2]
STORE = "book/ledger.json"
GROUPS = {  # what the tests measure: without tests/parity, and there, where PyTorch is installed
    "NumPy": "Errors of central differences and the complex step",
    "PyTorch": "Errors against PyTorch",
}
WITNESSES = [  # its name in the report, in the book, and whether it leaves an error
    ("central-differences", "central", True),
    ("complex-step", "complex", True),
    ("sympy", "SymPy: exact", False),
    ("pytorch", "PyTorch", True),
]
GRADIENT = r"eq:[a-z0-9-]+-backward[a-z0-9-]*"
LOGGER = logging.getLogger(__name__)


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
    """Take what the tests have measured as it is stored, or measure it where that does not hold."""
    root = Path(app.srcdir)
    app.env.equation_checks = checks = {}
    app.env.equation_checks_from = sentences = []
    for group, stored in read_store(root).items():
        why = reason(root, group, stored)
        if why and not measurable(group):
            LOGGER.info(f"ledger, {group}: left out, since {why}")
            continue
        if why:
            make = partial(measure, root, group, why, LOGGER.info)
            stored = json.loads(
                kept(root, f"{group}.json", stamp_of(root, group), make)
            )
        for label, found in stored["checks"].items():
            check = checks.setdefault(label, {"errors": {}, "tests": []})
            check["errors"] |= found["errors"]
            check["tests"] += found["tests"]
        sentences.append(sentence(GROUPS[group], stored["executed"], stored=not why))


def read_store(root):
    path = root / STORE
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {group: stored.get(group) for group in GROUPS}


def reason(root, group, stored):
    """Say why the stored errors of a group cannot be taken; empty, if they can."""
    return changes(stored and stored["executed"], stamp_of(root, group))


def measurable(group):
    return group != "PyTorch" or find_spec("torch") is not None


def tests_of(root, group):
    """The files of a group that witness an equation."""
    parity = root / "tests" / "parity"
    return [
        path
        for path in sorted(root.glob("tests/**/test_*.py"))
        if "mark.equation" in path.read_text(encoding="utf-8")
        and (parity in path.parents) == (group == "PyTorch")
    ]


def stamp_of(root, group):
    paths = tests_of(root, group)
    fixtures = {folder / "conftest.py" for path in paths for folder in path.parents}
    ours = [
        path for path in sorted(fixtures) if path.is_file() and root in path.parents
    ]
    return stamp(root, *paths, *ours, without=root / "transformer_core" / "practice")


def measure(root, group, why, say):
    """Run the tests of a group that witness an equation.

    Parameters
    ----------
    root : Path
        The repository.
    group : str
        One of ``GROUPS``.
    why : str
        The reason, for the line that is said.
    say : callable
        What says it, ``print`` for example.

    Returns
    -------
    str
        JSON with ``checks``: label to tests and errors, and ``executed``: what they were
        measured with.

    Raises
    ------
    ExtensionError
        If a test fails.
    """
    say(f"ledger, {group}: measured, since {why}")
    executed = executed_now(stamp_of(root, group))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", *map(str, tests_of(root, group))]
        command += ["-m", "equation", "-n", "2", f"--junitxml={report}"]
        environment = os.environ | RECORDED
        result = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True
        )
        if result.returncode:
            raise ExtensionError(f"equation ledger: a check fails\n{result.stdout}")
        checks = read_report(report)
    return json.dumps({"executed": executed, "checks": checks})


def read_report(report):
    """What the tests have measured: label to tests and largest errors, to the digit shown."""
    checks = {}
    for case in ElementTree.parse(report).iter("testcase"):
        properties = [(p.get("name"), p.get("value")) for p in case.iter("property")]
        found = dict(properties)
        for label in (value for name, value in properties if name == "equation"):
            check = checks.setdefault(label, {"errors": {}, "tests": []})
            file = case.get("classname").replace(".", "/") + ".py"
            test = f"{file}::{case.get('name').partition('[')[0]}"
            if test not in check["tests"]:
                check["tests"].append(test)
            if "witness" in found:
                errors, witness = check["errors"], found["witness"]
                error = float(f"{float(found['error']):.0e}")
                errors[witness] = max(errors.get(witness, 0.0), error)
    for check in checks.values():
        check["tests"].sort()
    return checks


def main():
    """Measure the errors of the groups whose stored ones do not hold, and store them."""
    store = read_store(ROOT)
    for group, stored in store.items():
        why = reason(ROOT, group, stored)
        if why and not measurable(group):
            print(f"ledger, {group}: not measured, since it is not installed")
        elif why:
            try:
                store[group] = json.loads(measure(ROOT, group, why, print))
            except ExtensionError as error:
                sys.exit(str(error))
    text = json.dumps(store, indent=1, sort_keys=True) + "\n"
    (ROOT / STORE).write_text(text, encoding="utf-8", newline="\n")


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
        self.functions = known = functions(root)
        labels = gradient_equations(root)
        lacking = [
            *(f"no docstring names {label}" for label in labels if label not in known),
            *(f"no test witnesses {label}" for label in labels if label not in checks),
        ]
        if lacking:
            raise ExtensionError("equation ledger: " + "; ".join(lacking))
        rows = ["| Equation | Function | Witnesses | Tests |", "|---|---|---|---|"]
        for label in labels:
            path, name, line = function = known[label]
            place = self.repository_link(path, line)
            tests = "<br>".join(
                f"{name.removeprefix('test_').replace('_', ' ')} (`{file}`)"
                for file, name in (test.split("::") for test in checks[label]["tests"])
            )
            rows.append(
                f"| {{eq}}`{label}` "
                f"| {{ref}}`{name} <{listing_id(path, name)}>`<br>{place} "
                f"| {self.witnesses(function)} | {tests} |"
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

    def witnesses(self, function):
        """What the witnesses have measured of a function, under any of its equations."""
        found = {}
        for label, check in self.env.equation_checks.items():
            if self.functions.get(label) == function:
                for witness, error in check["errors"].items():
                    found[witness] = max(found.get(witness, 0.0), error)
        lines = [
            f"{title} {found[witness]:.0e}" if error else title
            for witness, title, error in WITNESSES
            if witness in found
        ]
        return "<br>".join(lines)


def listing_id(path, name):
    """The place in the book where a function of the package is shown."""
    return f"listing-{path.removesuffix('.py')}-{name}".replace("/", "-").lower()


if __name__ == "__main__":
    main()
