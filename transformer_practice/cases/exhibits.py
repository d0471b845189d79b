"""The mistakes of the museum: a case is drawn from each room."""

import tomllib
from pathlib import Path
from typing import NamedTuple

from transformer_practice.mistakes import MUTANTS


class Exhibit(NamedTuple):
    name: str  # in the catalogue
    task: str  # that is trained under it
    key: str  # the question that is enough to know it: no other suspect gives this answer


ROOMS = [
    [
        Exhibit(name, room["task"], question)
        for question, names in room["questions"].items()
        for name in names
    ]
    for room in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["rooms"]
]

SUSPECTS = {exhibit.name: MUTANTS[exhibit.name] for exhibits in ROOMS for exhibit in exhibits}
