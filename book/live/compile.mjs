// Compile what a page imports of Python's library, of NumPy and of the package, in Pyodide itself: a
// page starts in less than half the time. Run in the folder of what was fetched, with the package as
// package.zip; what is compiled of it is compiled.zip, and Python passes it over where the source has
// changed since.
import { readFileSync, writeFileSync } from "node:fs";
import { loadPyodide } from "./node_modules/pyodide/pyodide.mjs";

const read = (name) => new Uint8Array(readFileSync(name));
const python = await loadPyodide();
const extractDir = python.runPython("import site; site.getsitepackages()[0]");
const archives = {
  "numpy.zip": read("numpy.whl"),
  "library.zip": read("node_modules/pyodide/python_stdlib.zip"),
};
const course = read("package.zip");
for (const [name, content] of Object.entries({ ...archives, "package.zip": course }))
  python.FS.writeFile(name, content);
for (const content of [archives["numpy.zip"], course])
  python.unpackArchive(content.buffer, "zip", { extractDir });
python.runPython(`
import importlib._bootstrap_external as bootstrap
import sys
from importlib.util import cache_from_source, source_hash
from zipfile import ZipFile
from transformer_practice.workspace import page

page.begin()
used = [each.__file__ or "" for each in sys.modules.values() if getattr(each, "__file__", None)]
for name in ("library.zip", "numpy.zip"):
    with ZipFile(name) as before, ZipFile("compiled", "w") as after:
        for path in before.namelist():
            if path.endswith((".pyi", ".h", ".pxd", ".a", ".c")):
                continue  # for a type checker or a compiler
            content = before.read(path)
            if path.endswith(".py") and any(each.endswith(f"/{path}") for each in used):
                code = compile(content, path, "exec", dont_inherit=True)
                path += "c"
                content = bootstrap._code_to_hash_pyc(code, source_hash(content), False)
            after.writestr(path, content)
    with open(name, "wb") as file, open("compiled", "rb") as compiled:
        file.write(compiled.read())
with ZipFile("package.zip") as package, ZipFile("compiled.zip", "w") as compiled:
    for path in package.namelist():
        if any(each.endswith(f"/{path}") for each in used):
            content = package.read(path)
            code = compile(content, path, "exec", dont_inherit=True)
            content = bootstrap._code_to_hash_pyc(code, source_hash(content), True)
            compiled.writestr(cache_from_source(path), content)
`);
for (const name of [...Object.keys(archives), "compiled.zip"]) writeFileSync(name, python.FS.readFile(name));
