"""The notebooks' outputs: taken as they are stored while the cells are those that were executed.

``python book/_ext/outputs.py`` executes the other notebooks and stores their outputs, or executes
those that are named. That the package still computes what is stored, `make test` sees, which
executes them all. Beside the notebooks ``executed.json`` tells the cells, versions and machine.
"""

import ast
import hashlib
import json
import os
import sys
from pathlib import Path

import nbformat
from figures import alternative_text, compact
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from sphinx.errors import ExtensionError
from sphinx.util import logging
from stored import RECORDED, computed_with, everything_anew, read_json, sentence, write_json

ROOT = Path(__file__).resolve().parents[2]
EXECUTED = "executed.json"  # beside the notebooks
TAGS = {"raises-exception", "skip-execution"}  # which change what a cell does
STARTER = "starter"  # of a cell that does nothing until a reader writes in it: it does not count
DRAWING = {"ax", "axes", "axis", "fig", "glue", "plots", "plt"}
LOGGER = logging.getLogger(__name__)


def setup(app):
    app.connect("builder-inited", take_outputs)
    app.connect("env-get-outdated", outdated_pages)
    app.connect("source-read", show_outputs)
    return {"parallel_read_safe": True}


def take_outputs(app):
    """Take or compute the outputs of every notebook."""
    root = Path(app.srcdir)
    app.notebooks = {}
    for path in sorted(root.glob("notebooks/*.ipynb")):
        try:
            app.notebooks[f"notebooks/{path.stem}"] = with_outputs(root, path)
        except CellExecutionError as error:
            raise ExtensionError(f"{path.name}: a cell fails\n{error}") from None


def outdated_pages(app, env, *_):
    """Write all pages anew where the outputs of a notebook are others than before."""
    before = getattr(env, "outputs", None)
    env.outputs = {
        docname: (fingerprint_of_outputs(notebook), notebook["cells"][-1]["source"])
        for docname, notebook in app.notebooks.items()
    }
    return [] if before in (None, env.outputs) else sorted(env.found_docs)


def with_outputs(root, path):
    """A notebook as its page shows it: with outputs that hold, and a line on their origin."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    executed = read_json(path.parent / EXECUTED).get(path.stem)
    why = reason(notebook, executed)
    if why:
        folder = root / "_build" / "executed" / fingerprint_of_cells(notebook)
        if everything_anew() or not (folder / path.name).exists():
            LOGGER.info(f"{path.name}: executed, since {why}")
            execute(path, folder)
        made = json.loads((folder / path.name).read_text(encoding="utf-8"))
        executed = read_json(folder / EXECUTED)[path.stem]
        for cell, new in zip(code_cells(notebook), code_cells(made), strict=True):
            cell["outputs"] = new["outputs"]
    for cell in code_cells(notebook):
        if "mystnb" in cell["metadata"]:
            cell["metadata"]["mystnb"]["image"]["alt"] = alternative_text(cell, notebook)
    notebook["cells"].append(
        {
            "cell_type": "markdown",
            "id": "executed",
            "metadata": {},
            "source": sentence("Outputs", executed),
        }
    )
    return notebook


def folded(cell):
    """A cell in parts, of which the one that draws or glues is folded; the last has the outputs."""
    source = "".join(cell["source"])
    try:
        statements = ast.parse(source).body if cell["cell_type"] == "code" else []
    except SyntaxError:  # a command for the shell
        statements = []
    drawing = [statement for statement in statements if is_drawing(statement)]
    if not drawing:
        return [cell]
    lines = source.splitlines()
    first, last = drawing[0].lineno - 1, drawing[-1].end_lineno
    drawn = sum(part.end_lineno - part.lineno + 1 for part in drawing)
    if drawn < 3 or 2 * drawn <= last - first or "starter" in cell["metadata"].get("tags", ()):
        return [cell]
    parts = []
    for part in (lines[:first], lines[first:last], lines[last:]):
        code = "\n".join(part).strip("\n")
        if code:
            parts.append(
                cell
                | {"id": f"{cell['id']}-{len(parts)}", "source": code, "outputs": []}
                | {"metadata": {"tags": list(cell["metadata"].get("tags", ()))}}
            )
            if part == lines[first:last]:
                parts[-1]["metadata"]["tags"].append("hide-input")
    parts[-1]["outputs"] = cell["outputs"]
    parts[-1]["metadata"] = cell["metadata"] | parts[-1]["metadata"]
    return parts


def is_drawing(node):
    """Whether a statement works on a figure or glues; a loop, if half of what it repeats does."""
    if isinstance(node, ast.FunctionDef):
        return any(arg.arg in DRAWING for arg in node.args.args)
    if isinstance(node, ast.For | ast.With | ast.If):
        return 2 * sum(map(is_drawing, node.body)) >= len(node.body)
    if not isinstance(node, ast.Expr | ast.Assign | ast.AugAssign):
        return False
    return any(
        isinstance(part, ast.Name) and part.id in DRAWING
        for call in ast.walk(node.value)
        if isinstance(call, ast.Call)
        for part in (root(call.func), *call.args)
    )


def root(node):
    """The name that a chain of attributes, calls and subscripts begins with."""
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node


def show_outputs(app, docname, source):
    if docname in app.notebooks:
        notebook = app.notebooks[docname]
        cells = [part for cell in notebook["cells"] for part in folded(cell)]
        source[0] = json.dumps(notebook | {"cells": cells})


def reason(notebook, executed):
    """Say why the stored outputs of a notebook cannot be taken; empty, if they can."""
    if everything_anew():
        return "EXECUTE=all"
    if executed is None:
        return "it was never executed"
    return "" if executed["cells"] == fingerprint_of_cells(notebook) else "its cells changed"


def execute(path, folder):
    """Execute a notebook, and store it with its outputs in a folder; the same bytes every time."""
    notebook = nbformat.read(path, as_version=4)
    metadata = dict(notebook.metadata)
    client = NotebookClient(
        notebook,
        timeout=900,
        startup_timeout=180,
        record_timing=False,
        coalesce_streams=True,  # else they are cut where the kernel happens to flush
        resources={"metadata": {"path": path.parent}},
    )
    client.execute(env=os.environ | RECORDED)
    notebook.metadata = metadata  # not the version of the kernel's Python
    for cell in code_cells(notebook):
        for output in cell["outputs"]:
            if "image/svg+xml" in output.get("data", {}):
                output["data"]["image/svg+xml"] = compact(output["data"]["image/svg+xml"])
    folder.mkdir(parents=True, exist_ok=True)
    text = nbformat.writes(notebook) + "\n"
    (folder / path.name).write_text(text, encoding="utf-8", newline="\n")
    cells = fingerprint_of_cells(json.loads(text))
    executed = computed_with("numpy", "matplotlib") | {"cells": cells}
    write_json(folder / EXECUTED, read_json(folder / EXECUTED) | {path.stem: executed})


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def fingerprint(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def fingerprint_of_outputs(notebook):
    return fingerprint([cell["outputs"] for cell in code_cells(notebook)])


def fingerprint_of_cells(notebook):
    return fingerprint(
        [
            ("".join(cell["source"]), sorted(TAGS.intersection(cell["metadata"].get("tags", ()))))
            for cell in code_cells(notebook)
            if STARTER not in cell["metadata"].get("tags", ())
        ]
    )


def main(named):
    """Execute and store the notebooks that are named, or those of which other cells are stored."""
    executed = read_json(ROOT / "notebooks" / EXECUTED)
    for path in [Path(name).resolve() for name in named] or sorted(ROOT.glob("notebooks/*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        why = "it was named" if named else reason(notebook, executed.get(path.stem))
        if why:
            print(f"{path.name}: executed, since {why}", flush=True)
            try:
                execute(path, path.parent)
            except CellExecutionError as error:
                sys.exit(f"{path.name}: a cell fails\n{error}")


if __name__ == "__main__":
    main(sys.argv[1:])
