"""The equation ledger: every gradient equation, its function, its tests and their errors."""

import ast
import hashlib
import os
import re
import subprocess
import sys
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

WITNESSES = [  # its name in the report, in the book, and whether it leaves an error
    ("central-differences", "central", True),
    ("complex-step", "complex", True),
    ("sympy", "SymPy: exact", False),
    ("pytorch", "PyTorch", True),  # where it is installed
]
GRADIENT = r"eq:[a-z0-9-]+-backward[a-z0-9-]*"


class Function(NamedTuple):
    path: str
    name: str
    line: int


class Proofs(NamedTuple):
    tests: dict[str, set[tuple[str, str]]]  # label to files and names of its tests
    errors: dict[tuple[str, str], float]  # label and witness to the largest error


def setup(app):
    app.add_directive("equation-ledger", EquationLedger)
    app.connect("builder-inited", run_the_proofs)
    app.connect("env-get-outdated", lambda *_: ["book/ledger"])
    return {"parallel_read_safe": True}


def run_the_proofs(app):
    """Run the tests that prove an equation, once for each state of code, tests and PyTorch."""
    root = Path(app.srcdir)
    digest = hashlib.sha256()
    for path in sorted(
        [*root.glob("transformer_core/**/*.py"), *root.glob("tests/**/*.py")]
    ):
        digest.update(path.read_bytes())
    digest.update(bytes([find_spec("torch") is not None]))
    report = root / "_build" / f"proofs-{digest.hexdigest()[:16]}.xml"
    if not report.exists():
        command = [sys.executable, "-m", "pytest", "tests", "--ignore=tests/browser"]
        command += ["-m", "equation", "-n", "2", f"--junitxml={report}.part"]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        result = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True
        )
        if result.returncode:
            raise ExtensionError(f"equation ledger: a proof fails\n{result.stdout}")
        Path(f"{report}.part").replace(report)
    app.env.equation_proofs = read_proofs(report)


def read_proofs(report):
    tests, errors = defaultdict(set), {}
    for case in ElementTree.parse(report).iter("testcase"):
        properties = [(p.get("name"), p.get("value")) for p in case.iter("property")]
        found = dict(properties)
        for label in (value for name, value in properties if name == "equation"):
            file = case.get("classname").replace(".", "/") + ".py"
            tests[label].add((file, case.get("name").partition("[")[0]))
            if "witness" in found:
                key = label, found["witness"]
                errors[key] = max(errors.get(key, 0.0), float(found["error"]))
    return Proofs(dict(tests), errors)


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
        proofs = self.env.equation_proofs
        self.functions = known = functions(root)
        labels = gradient_equations(root)
        lacking = [
            *(f"no docstring names {label}" for label in labels if label not in known),
            *(
                f"no test proves {label}"
                for label in labels
                if label not in proofs.tests
            ),
        ]
        if lacking:
            raise ExtensionError("equation ledger: " + "; ".join(lacking))
        rows = ["| Equation | Function | Witnesses | Tests |", "|---|---|---|---|"]
        for label in labels:
            path, name, line = function = known[label]
            place = self.repository_link(path, line)
            tests = "<br>".join(
                f"{name.removeprefix('test_').replace('_', ' ')} (`{file}`)"
                for file, name in sorted(proofs.tests[label])
            )
            rows.append(
                f"| {{eq}}`{label}` "
                f"| {{ref}}`{name} <{listing_id(path, name)}>`<br>{place} "
                f"| {self.witnesses(function)} | {tests} |"
            )
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
        for (label, witness), error in self.env.equation_proofs.errors.items():
            if self.functions.get(label) == function:
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
