"""The arrows of the house go one way, and CONTRIBUTING.md draws them as they are."""

import ast
import re
import subprocess
import sys
from functools import cache

from helpers.texts import ROOT, import_statements, read

PACKAGES = "transformer_core", "transformer_practice"
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
PICTURE = re.search(r"```text\n(foundation.*?)```", read(ROOT / "CONTRIBUTING.md"), re.S)[1]
ARROWS = {
    room: set(re.findall(r"\w+", below))
    for room, _, below in (line.partition("->") for line in PICTURE.splitlines())
    for room in [room.strip()]
}


def module(path):
    """The parts of a module's name: ("transformer_core", "ops", "linear")."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


MODULES = {module(path): path for path in FILES}


@cache
def imports(path):
    """The modules of the two packages that a file imports, wherever in it."""
    found = []
    for node in import_statements(read(path)):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: an import from a dot"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            names = [alias.name for alias in node.names]
        for name in names:
            parts = tuple(name.split("."))
            if parts[0] in PACKAGES:
                own = (parts[:n] for n in range(len(parts), 0, -1) if parts[:n] in MODULES)
                found.append(next(own))
    return found


def room(name):
    """What the picture calls the place of a module, or None for the face of the library."""
    package, *parts = name
    if package == "transformer_practice":
        return package
    if parts[-1:] == ["__main__"]:
        return "commands"
    return parts[0] if parts else None


def reachable(room, arrows):
    """The rooms to which arrows lead from a room, over others too."""
    found, waiting = set(), [room]
    while waiting:
        for below in arrows[waiting.pop()] - found:
            found.add(below)
            waiting.append(below)
    return found


def drawn():
    """The picture as it follows from the code, without the arrows that others make up for."""
    arrows = {}
    for name, path in MODULES.items():
        if room(name):
            below = {room(other) for other in imports(path)}
            arrows.setdefault(room(name), set()).update(below - {None, room(name)})
    order = sorted(arrows, key=lambda one: (len(reachable(one, arrows)), one))
    lines = []
    for one in order:
        over = set().union(*(reachable(below, arrows) for below in arrows[one]))
        below = [other for other in order if other in arrows[one] - over]
        lines.append(f"{one:<21}-> {', '.join(below)}" if below else one)
    return "\n".join(lines) + "\n"


def test_the_picture_of_contributing_is_that_of_the_code():
    expected = drawn()
    assert expected == PICTURE, f"CONTRIBUTING.md, The house: expected this picture\n{expected}"


def test_no_arrow_leads_back():
    assert not [room for room in ARROWS if room in reachable(room, ARROWS)]


def test_no_command_imports_a_command_and_no_task_another_task():
    for path in FILES:
        *place, name = (*module(path), "")[:3]
        others = {parts[2] for parts in imports(path) if [*parts[:2]] == place and parts[2:]}
        if place == ["transformer_core", "commands"]:
            assert others <= {"streams"}, path  # what all commands write to
        if place == ["transformer_core", "tasks"]:
            # What several tasks read, and what a search may begin with.
            assert others <= {name, "texts", *(["bert"] if name == "search" else [])}, path


def test_no_two_modules_import_each_other():
    graph = {name: set(imports(path)) for name, path in MODULES.items()}
    done, above = set(), []

    def walk(name):
        assert name not in above, [*above, name]
        if name not in done:
            above.append(name)
            for other in graph[name] - {name[:n] for n in range(len(name))}:
                walk(other)
            done.add(above.pop())

    for name in graph:
        walk(name)


def modules_after(*statements):
    """The modules that a fresh interpreter holds after each of some statements."""
    code = "".join(f"{statement}; import sys; print(*sys.modules)\n" for statement in statements)
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [set(line.split()) for line in result.stdout.splitlines()]


def test_the_library_imports_numpy_and_the_standard_library_alone():
    names = [".".join(name) for name in MODULES if room(name) not in ("transformer_practice", None)]
    names = [name for name in names if not name.endswith("__main__")]
    allowed, brought = (
        {name.partition(".")[0] for name in after}
        for after in modules_after("import numpy.random", f"import {', '.join(names)}")
    )
    assert brought - allowed - sys.stdlib_module_names == {"transformer_core"}


def test_the_training_loop_brings_no_scheme_and_the_package_no_room():
    alone, after = modules_after(
        "import transformer_core", "from transformer_core.training.loop import train"
    )
    assert {name for name in alone if name.startswith("transformer_core")} == {"transformer_core"}
    ours = {name for name in after if name.startswith("transformer_core")}
    rooms = {name.split(".")[1] for name in ours if "." in name}
    assert rooms == {"foundation", "optim", "ranks", "training"}
    assert not {"mpi4py", "transformer_core.distributed"} & after
