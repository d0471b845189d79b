// Compile what a page imports of Python's library and of NumPy, in Pyodide itself: a page starts in
// less than half the time. Run in the folder of what was fetched, with the package as package.zip.
import { readFileSync, writeFileSync } from "node:fs";
import { loadPyodide } from "./node_modules/pyodide/pyodide.mjs";

const read = (name) => new Uint8Array(readFileSync(name));
const python = await loadPyodide();
const extractDir = python.runPython("import site; site.getsitepackages()[0]");
const archives = {
  "numpy.zip": read("numpy.whl"),
  "library.zip": read("node_modules/pyodide/python_stdlib.zip"),
};
for (const [name, content] of Object.entries(archives)) python.FS.writeFile(name, content);
for (const content of [archives["numpy.zip"], read("package.zip")])
  python.unpackArchive(content.buffer, "zip", { extractDir });
python.runPython(`
import importlib._bootstrap_external as bootstrap
import sys
from importlib.util import source_hash
from zipfile import ZIP_DEFLATED, ZipFile
from transformer_practice.workspace import page

page.begin()
used = [each.__file__ or "" for each in sys.modules.values() if getattr(each, "__file__", None)]
for name in ("library.zip", "numpy.zip"):
    with ZipFile(name) as before, ZipFile("compiled", "w", ZIP_DEFLATED) as after:
        for path in before.namelist():
            content = before.read(path)
            if path.endswith(".py") and any(each.endswith(f"/{path}") for each in used):
                code = compile(content, path, "exec", dont_inherit=True)
                path += "c"
                content = bootstrap._code_to_hash_pyc(code, source_hash(content), False)
            after.writestr(path, content)
    with open(name, "wb") as file, open("compiled", "rb") as compiled:
        file.write(compiled.read())
`);
for (const name of Object.keys(archives)) writeFileSync(name, python.FS.readFile(name));
