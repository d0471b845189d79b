"""Models in one file each, to take along: ``make onefile``, and the book's downloads.

``book/gpt.py`` is such a file as it stands. The encoder's is made from the package:
``onefile_main.py`` is a script that imports it. Here its imports give way to what they name, to
what that needs, and so on: nothing else of the package comes along.
"""

import ast
import re
import shutil
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

from transformer_practice.engine.planting import places
from transformer_practice.mistakes import Mutant

# From the top of the file to its end. In a folder, what is imported stands before what imports it.
ORDER = ["foundation", "ops", "tasks", "optim", "gradient_check"]
# Options that the encoder leaves alone, by function: they are None.
UNUSED = {"softmax": "keep", "step": "max_norm"}
# Texts that give way to others, by part: no mask, no dropout, no clipping, no ranks.
EDITS = {
    "AttentionCache": {"\n    dropout: DropoutCache = DropoutCache(None, 0)": ""},
    "attention": {
        "    if shared(query, key):\n"
        "        return shared_attention(query, key, value, keep, rate, rng)\n": "",
        ", keep=None, rate=0, rng=None": "",
        "softmax(scores, keep)": "softmax(scores)",
        "    dropped, dropout_cache = dropout(weights, rate, rng)\n": "",
        "dropped @ value": "weights @ value",
        "softmax_cache, dropout_cache)": "softmax_cache)",
    },
    "attention_backward": {
        "    if shared(cache.query, cache.key):\n"
        "        return shared_attention_backward(doutput, cache)\n": "",
        "softmax_cache, dropout_cache = cache": "softmax_cache = cache",
        "    dropped = dropout_backward(weights, dropout_cache)\n": "",
        "dropped.swapaxes": "weights.swapaxes",
        "    dweights = dropout_backward(ddropped, dropout_cache)\n": "",
        "ddropped = ": "dweights = ",
    },
    "Optimizer": {
        "norm=None, map=map": "map=map",
        "        if not isinstance(current, Pieces):\n": "",
        "            current = Pieces(current, partial(global_norm, map=map))\n": "",
        "        self.norm, self.publish = (norm or current.norm, current.publish)\n": "",
        "\n        self.publish()": "",
        "        factor = 1.0\n": "",
        "apply(grads, factor)": "apply(grads)",
        "apply(self, grads, factor)": "apply(self, grads)",
        "        def update(name, parameter, grad, *averages):\n": "",
        "            self.update(name, parameter, factor * grad, *averages)\n": "",
        "update if factor < 1 else self.update": "self.update",
    },
}
ROOT = Path(__file__).parents[2]
PACKAGE = "transformer_core"
SCRIPT = "book._ext.onefile_main"
TARGET = "_build/transformer.py"
GPT = "book/gpt.py", "_build/gpt.py"


def setup(app):
    """Write the file before Sphinx reads the pages that offer it."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir)))
    return {"parallel_read_safe": True}


def write(root: Path) -> None:
    """Write the file into a checkout, unless it stands there already."""
    path, text = root / TARGET, one_file(root)
    path.parent.mkdir(exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8", newline="\n")


def one_file(root: Path = ROOT) -> str:
    """Return the script with the parts of the package that it needs.

    Raises
    ------
    ValueError
        If the package has not a name that is asked for or a text of ``EDITS``, if two parts have
        one name, or if a part lies in a folder that ``ORDER`` does not list.
    """
    modules = {}
    load(root, SCRIPT, modules)
    parts = collect(modules)

    imports, sections = set(), []
    needed = {name for name, _ in parts}
    for name in sorted((name for name in modules if name in needed), key=place):
        module = modules[name]
        texts = [parts[name, part] for part in module.parts if (name, part) in parts]
        sections.append("\n".join([module.title, *texts]))
        used = names(sections[-1])
        imports |= {line for n, line in module.outside.items() if n in used}
    header = ast.get_source_segment(modules[SCRIPT].source, modules[SCRIPT].docstring)
    text = "\n\n".join([header, *sorted(imports), *sections])
    text = ruff(text, "check", "--quiet", "--fix", "--select=I")
    return ruff(text, "format", "--config=format.skip-magic-trailing-comma=true")


def place(name):
    """Tell where in the file the parts of a module stand."""
    if name == SCRIPT:
        return len(ORDER)
    folder = name.split(".")[1]
    if folder not in ORDER:
        raise ValueError(f"ORDER: expected a place for {folder}, where {name} is")
    return ORDER.index(folder)


def ruff(text, *arguments):
    result = subprocess.run(
        [sys.executable, "-m", "ruff", *arguments, "--isolated", "-"],
        input=text,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return result.stdout


def load(root, name, modules):
    """Read a module, after those of the package that it imports from."""
    if name in modules:
        return
    path = root / name.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not path.exists():
        raise ValueError(f"{name}: expected a module, found none")
    module = modules[name] = Module(path.read_text(encoding="utf-8"), name)
    for imported, _ in module.inside.values():
        load(root, imported, modules)
    modules[name] = modules.pop(name)  # behind them


def collect(modules):
    """Return the texts of the parts that are needed, by the names of module and part."""
    needed = {(SCRIPT, part) for part in modules[SCRIPT].parts}
    texts, attributes = {}, set()
    while True:
        before = texts
        texts = before | {  # by now a class may have more methods
            (m, part): modules[m].text(part, attributes)
            for m, part in needed
            if (m, part) not in before or isinstance(modules[m].parts[part], ast.ClassDef)
        }
        if texts == before:
            break
        for (name, _), text in texts.items() - before.items():
            module = modules[name]
            for used in names(text) & (module.inside.keys() | module.parts.keys()):
                needed.add(origin(name, used, modules))
            attributes |= attributes_of(text)
    modules_of = {}
    for name, part in sorted(needed):
        if modules_of.setdefault(part, name) != name:
            raise ValueError(
                f"{part}: expected one part of this name, got one of {modules_of[part]} "
                f"and one of {name}"
            )
    return {(m, part): modules[m].text(part, attributes, complete=True) for m, part in needed}


def origin(name, part, modules):
    """Follow a name through the modules that hand it on."""
    while part in modules[name].inside:
        name, part = modules[name].inside[part]
    if part not in modules[name].parts:
        raise ValueError(f"{name}: expected it to have {part}")
    return name, part


def names(text):
    """Return the names that a text uses."""
    return {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}


def attributes_of(text):
    """Return what a text asks of objects: ``forward`` in ``layer.forward(x)``."""
    return {n.attr for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Attribute)}


class Module:
    """A module's parts, by name, and where its other names come from.

    A part is a statement at the top level, such as a function or a class. Parts of the package are
    shortened, the script's are as they are.
    """

    def __init__(self, source, name):
        self.source, self.in_script = source, name == SCRIPT
        self.docstring, *statements = ast.parse(source).body
        path = name.partition(".")[2].replace(".", "/")
        self.title = "# The encoder, and its training" if self.in_script else f"# {path}.py"
        self.parts, self.inside, self.outside = {}, {}, {}
        for node in statements:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.add_import(node)
            else:
                self.parts[part_name(node)] = node

    def add_import(self, node):
        origin = getattr(node, "module", "")
        for alias in node.names:
            name = alias.asname or alias.name
            if origin.partition(".")[0] == PACKAGE:
                self.inside[name] = origin, alias.name
            else:
                alone = ast.ImportFrom(origin, [alias], 0) if origin else ast.Import([alias])
                self.outside[name] = ast.unparse(alone)

    def text(self, part, attributes, complete=False):
        """Return a part: of a class, the methods that have one of the names, or a __name__.

        Until all names are known, a text that gives way may stand in a method that is missing.
        """
        node = self.parts[part]
        if self.in_script:
            return ast.get_source_segment(self.source, node)
        short = ast.unparse(Shortener(attributes).visit(deepcopy(node)))
        edits = {old: new for old, new in EDITS.get(part, {}).items() if complete or old in short}
        change = Mutant(part, "", "this part", edits, "")
        for start, end, new in sorted(places(short, change), reverse=True) if edits else ():
            short = short[:start] + new + short[end:]
        return "\n".join(map(bare, short.splitlines()))


class Shortener(ast.NodeTransformer):
    """Takes out checks, hints, docstrings but for their first lines, and what is not used."""

    def __init__(self, attributes):
        self.attributes, self.unused = attributes, None

    def visit(self, node):
        return None if is_check(node) else super().visit(node)

    def visit_Expr(self, node):
        if isinstance(node.value, ast.Constant):
            node.value.value = node.value.value.partition("\n")[0]
        return self.generic_visit(node)

    def visit_arg(self, node):
        node.annotation = None
        return node

    def visit_ClassDef(self, node):
        node.body = [
            member
            for member in node.body
            if not isinstance(member, ast.FunctionDef)
            or member.name in self.attributes
            or member.name.startswith("__")
        ]
        return self.generic_visit(node)

    def visit_FunctionDef(self, node):
        node.returns = None
        if node.args.args and UNUSED.get(node.name) == node.args.args[-1].arg:
            self.unused = node.args.args.pop().arg
            node.args.defaults.pop()
        self.generic_visit(node)
        ends = [i for i, n in enumerate(node.body) if isinstance(n, ast.Return)]
        if ends:
            del node.body[ends[0] + 1 :]
        read = {
            n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
        }
        node.body = [
            n
            for n in node.body
            if not (
                isinstance(n, ast.Assign)
                and isinstance(n.targets[0], ast.Name)
                and n.targets[0].id not in read
            )
        ]
        return node

    def visit_If(self, node):
        """Take the branch that is left where an unused option decides."""
        holds = self.decided(node.test)
        if holds is None:
            return self.generic_visit(node)
        kept = node.body if holds else node.orelse
        return [new for n in kept if (new := self.visit(n)) is not None]

    def visit_IfExp(self, node):
        holds = self.decided(node.test)
        if holds is None:
            return self.generic_visit(node)
        return self.visit(node.body if holds else node.orelse)

    def decided(self, test):
        """Tell whether a test holds, None if that is open."""
        return {f"{self.unused} is None": True, f"{self.unused} is not None": False}.get(
            ast.unparse(test)
        )


def bare(line):
    """Take off the brackets that ``ast.unparse`` puts around a tuple."""
    match = re.fullmatch(r"(\s*(?:return|[^(]+ =) )\((.+)\)", line)
    if match and isinstance(ast.parse(f"({match[2]})").body[0].value, ast.Tuple):
        return match[1] + match[2]
    return line


def is_check(node):
    """Tell whether a statement only asks whether something is as expected."""
    match node:
        case ast.Expr(ast.Call(ast.Name(name) | ast.Attribute(attr=name))):
            return name.startswith("check_")
        case ast.If(body=[*_, ast.Raise()], orelse=[]):
            return True
        case ast.For(body=body):
            return all(map(is_check, body))
    return False


def part_name(node):
    """Return the name that a statement defines, or one that nothing else has."""
    target = getattr(node, "target", None) or getattr(node, "targets", [None])[0]
    return getattr(node, "name", None) or getattr(target, "id", f"line {node.lineno}")


if __name__ == "__main__":
    write(ROOT)
    shutil.copy(*(ROOT / path for path in GPT))
    for path in (TARGET, GPT[1]):
        print(f"{path}: {len((ROOT / path).read_text(encoding='utf-8').splitlines())} lines")
