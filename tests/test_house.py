"""The arrows of the house go one way."""

import ast
from pathlib import Path

import pytest
from texts import ROOT

PACKAGE = ROOT / "transformer_core"
FILES = sorted(PACKAGE.rglob("*.py"))

# What each room may import, besides its own files.
FOUNDATION = {"foundation"}
OPS = {"ops"} | FOUNDATION
LAYERS = {"layers"} | OPS
MODELS = {"models"} | LAYERS
DISTRIBUTED = {"distributed", "optim"} | MODELS
TRAINING = {"training"} | DISTRIBUTED
TASKS = {"tasks"} | MODELS | TRAINING
PRACTICE = {"practice", "gradient_check", "sentence"} | TASKS
ROOMS = {
    "": set(),
    "foundation": set(),
    "ops": FOUNDATION,
    "layers": OPS,
    "models": LAYERS,
    "optim": FOUNDATION,
    "distributed": DISTRIBUTED,
    "training": TRAINING,
    "gradient_check": FOUNDATION,
    "sentence": set(),
    "tasks": MODELS | TRAINING,
    "practice": PRACTICE,
    "commands": PRACTICE,
    "plots": {"gradient_check"} | TASKS,
    "__main__": {"commands", "distributed"},
}


def module(path):
    """The parts of a module's name within the package: ("ops", "linear")."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def imports(path):
    """The modules of the package that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: an import from a dot"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == PACKAGE.name:
                parts = tuple(parts[1:])
                yield next(
                    parts[:n]
                    for n in range(len(parts), -1, -1)
                    if is_module(PACKAGE.joinpath(*parts[:n]))
                )


def is_module(path: Path):
    return path.is_dir() or path.with_suffix(".py").is_file()


every_file = pytest.mark.parametrize(
    "path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix()
)


@every_file
def test_a_room_imports_only_from_the_rooms_below_it(path):
    room = (*module(path), "")[0]
    assert {(*parts, "")[0] for parts in imports(path)} <= ROOMS[room] | {room, ""}


@every_file
def test_no_command_imports_a_command_and_no_task_another_task(path):
    room, *rest = (*module(path), "", "")
    others = {parts[1] for parts in imports(path) if parts[:1] == (room,) and parts[1:]}
    if room == "commands":
        assert others == set()
    if room == "tasks":
        assert others <= {rest[0]}


def test_no_two_modules_import_each_other():
    graph = {module(path): set(imports(path)) for path in FILES}
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
