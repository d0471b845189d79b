"""What stored results were made with: a stamp, which tells whether they still hold."""

import ast
import hashlib
import json
import os
import platform
import re
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

# For whatever computes results that are stored, as in the Makefile: no progress bars, and one
# thread, whose sums do not depend on the number of cores.
RECORDED = {
    "TQDM_DISABLE": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
}
REQUIREMENTS = "requirements.txt", "tests/parity/requirements.txt"
TAGS = {"raises-exception", "skip-execution"}  # which change what a cell does
STARTER = "starter"  # of a cell that does nothing until a reader writes in it: it does not count
DOCUMENTED = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef


class Code(NamedTuple):
    fingerprint: str
    imports: list[tuple[str, str | None]]  # module and name: from module import name
    paths: list[str]  # the strings that may be paths of files


def stamp(root, *paths, without=None):
    """Fingerprints of files and of all they need in this repository, and the pins of the rest.

    A file needs what it imports, in its functions too, and the files whose paths stand in it as
    strings, seen from its own folder or from the package's. Of a package that passes a name on,
    the file that defines the name is needed. What is imported under a computed name is not seen.

    Parameters
    ----------
    root : Path
        The repository.
    *paths : Path
        Notebooks and Python files in it.
    without : Path, optional
        A folder that does not count, nor what only its files need.

    Returns
    -------
    dict
        ``files``: path to fingerprint, ``packages``: name to version.
    """
    pins = pinned_versions(root)
    files, packages, waiting = {}, {}, list(paths)
    while waiting:
        path = waiting.pop()
        name = path.relative_to(root).as_posix()
        if name in files or without in path.parents:
            continue
        code = read(path)
        files[name] = code.fingerprint
        for module, imported in code.imports:
            file = find(root, module, imported)
            package = module.partition(".")[0].replace("_", "-")
            if file:
                waiting.append(file)
            elif package in pins:
                packages[package] = pins[package]
        for written in code.paths:
            for folder in (path.parent, root / "transformer_core"):
                file = Path(os.path.normpath(folder / written))
                if file.is_file() and file.is_relative_to(root):
                    waiting.append(file)
    return {"files": files, "packages": packages}


def executed_now(stamp):
    """What is stored beside results: their stamp, with the versions that are installed, and where.

    Parameters
    ----------
    stamp : dict
        As from ``stamp``.

    Returns
    -------
    dict
        ``stamp``, ``python`` (its version) and ``machine``.
    """
    # without the part that tells the builds of one version apart, such as 2.13.0+cpu
    packages = {name: version(name).partition("+")[0] for name in stamp["packages"]}
    return {
        "machine": machine(),
        "python": platform.python_version(),
        "stamp": stamp | {"packages": packages},
    }


def changes(executed, stamp):
    """Say why stored results cannot be taken: what has changed since, or ``EXECUTE=all``.

    Parameters
    ----------
    executed : dict or None
        What was stored beside them, as from ``executed_now``.
    stamp : dict
        As from ``stamp``.

    Returns
    -------
    str
        Empty, if they can.
    """
    if everything_anew():
        return "EXECUTE=all"
    if executed is None:
        return "it was never executed"
    before, now = (
        stamp["files"] | stamp["packages"] for stamp in (executed["stamp"], stamp)
    )
    changed = [
        "its cells" if part.endswith(".ipynb") else part
        for part in sorted(before | now)
        if before.get(part) != now.get(part)
    ]
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    return f"{', '.join(changed[:3])}{more} changed" if changed else ""


def everything_anew():
    """Whether ``EXECUTE=all`` asks for everything, stored or not."""
    wanted = os.environ.get("EXECUTE")
    if wanted not in (None, "", "all"):
        raise ValueError(f"expected EXECUTE=all or nothing, got EXECUTE={wanted}")
    return wanted == "all"


def kept(root, name, stamp, make):
    """Return the text that a build has made with a stamp: this build, unless it is there already.

    Parameters
    ----------
    root : Path
        The repository, in whose ``_build`` it is kept.
    name : str
        Of the file.
    stamp : dict
        As from ``stamp``.
    make : callable
        Called without arguments, returns the text.

    Returns
    -------
    str
    """
    path = root / "_build" / "executed" / fingerprint(stamp) / name
    if everything_anew() or not path.exists():
        text = make()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path.read_text(encoding="utf-8")


def sentence(results, executed, stored):
    """Say with which versions and on what machine results were computed, and where they are from.

    Parameters
    ----------
    results : str
        Their name, as the subject of the sentence.
    executed : dict
        What is stored beside them, as from ``executed_now``.
    stored : bool
        Whether they were taken from the store.

    Returns
    -------
    str
        Markdown.
    """
    packages = [f"{name} {v}" for name, v in executed["stamp"]["packages"].items()]
    versions = ", ".join([f"Python {executed['python']}", *sorted(packages)])
    when = "and stored with the sources" if stored else "when this book was built"
    return f"*{results} computed with {versions} on {executed['machine']}, {when}.*"


def machine():
    """Architecture, cores, and the library that multiplies NumPy's matrices with its kernels."""
    import numpy as np
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))  # some systems load it when it is first used
    found = [lib for lib in threadpool_info() if lib["user_api"] == "blas"]
    blas = "a BLAS that threadpoolctl does not know"
    if found:
        kernels = found[0].get("architecture", "unknown")
        blas = f"{found[0]['internal_api']} {found[0]['version']} ({kernels} kernels)"
    return f"{platform.machine()}, {os.cpu_count()} cores, {blas}"


def pinned_versions(root):
    lines = [(root / name).read_text(encoding="utf-8") for name in REQUIREMENTS]
    return dict(re.findall(r"^([\w.-]+)==([\w.]+)", "\n".join(lines), re.MULTILINE))


def find(root, module, name=None):
    """The file of a module of ours, or the one that defines a name of it; None for all others."""
    for folder in (root, root / "tests"):
        path = folder.joinpath(*module.split("."))
        file, package = path.with_suffix(".py"), path / "__init__.py"
        if file.is_file():
            return file
        if package.is_file():
            found = name and find(root, f"{module}.{name}")
            for source, imported in read(package).imports if name else ():
                if imported == name:
                    found = found or find(root, source, name)
            return found or package
    return None


def read(path):
    return read_code(path.suffix, path.read_bytes())


@cache
def read_code(kind, content):
    """The ``Code`` of a notebook or a Python file; of another file, only its fingerprint."""
    if kind == ".ipynb":
        cells = [
            (
                "".join(cell["source"]),
                sorted(set(cell["metadata"].get("tags", ())) & TAGS),
            )
            for cell in json.loads(content)["cells"]
            if cell["cell_type"] == "code"
            and STARTER not in cell["metadata"].get("tags", ())
        ]
        source = "\n".join(source for source, _ in cells)
        tree = ast.parse(re.sub(r"^[%!].*", "", source, flags=re.MULTILINE))
        return Code(fingerprint(cells), imports(tree), paths(tree))
    if kind == ".py":
        tree = ast.parse(content)
        for node in ast.walk(tree):
            if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
                del node.body[0]
        return Code(fingerprint(plain(tree)), imports(tree), paths(tree))
    return Code(fingerprint(content.hex()), [], [])


def fingerprint(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def plain(node):
    """A syntax tree as lists, the same from every version of Python: ``ast.dump`` is not."""
    if isinstance(node, list):
        return [plain(child) for child in node]
    if isinstance(node, ast.AST):
        fields = [
            (n, plain(v)) for n, v in ast.iter_fields(node) if v not in (None, [])
        ]
        return [type(node).__name__, fields]
    return repr(node)


def imports(tree):
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found += [(alias.name, None) for alias in names]
            case ast.ImportFrom(level=0, module=module, names=names):
                found += [(module, alias.name) for alias in names]
            case ast.ImportFrom():
                raise ValueError("expected absolute imports, found a relative one")
            case ast.Call(
                func=ast.Name(id=called) | ast.Attribute(attr=called),
                args=[ast.Constant(value=str(module)), *_],
            ) if called in ("import_module", "importorskip"):
                found.append((module, None))
    return found


def paths(tree):
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"[\w./-]+\.\w+", node.value)
    ]
