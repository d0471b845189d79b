"""The mistakes of the museum: a case is drawn from each room."""

import tomllib
from pathlib import Path
from typing import NamedTuple

from transformer_practice.mistakes import MUTANTS


class Exhibit(NamedTuple):
    name: str  # in the catalogue
    task: str  # that is trained under it
    key: str  # the question that is enough to know it: no other suspect gives this answer


class Published(NamedTuple):
    title: str
    name: str  # in the catalogue, or in the study
    setting: str  # of the study in which it is trained
    threads: tuple[str, ...]  # where it was reported, on github.com: "owner/name/issues/1"


def read(name):
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text("utf-8"))


def rooms(collection):
    """Return the rooms of a collection."""
    return [
        [
            Exhibit(name, room["task"], question)
            for question, names in room["questions"].items()
            for name in names
        ]
        for room in collection["rooms"]
    ]


def suspects(rooms):
    """Return the mistakes of all rooms, by their names."""
    return {exhibit.name: MUTANTS[exhibit.name] for room in rooms for exhibit in room}


ROOMS = rooms(read("exhibits"))
SUSPECTS = suspects(ROOMS)
SHIPPED = rooms(read("shipped"))  # of those that projects have published
PUBLISHED = {
    each["name"]: Published(**each | {"threads": tuple(each["threads"])})
    for each in read("shipped")["exhibits"]
}
