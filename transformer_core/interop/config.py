"""What the families share of reading and writing ``config.json``."""

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from transformer_core.foundation.checks import (
    LARGEST_SIZE,
    check_choice,
    check_positive,
    check_whole,
)
from transformer_core.interop.rows import Row
from transformer_core.layers.layer import Layer

# Activations by the names in the files; the tanh form has two.
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}


# What the kinds of JSON are called in messages.
KINDS = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "settings by name",
    type(None): "null",
}


class Plan(NamedTuple):
    """What a configuration describes: nothing is built yet."""

    rows: list[Row]
    build: Callable[[str, bool, bool], Layer]  # of a dtype; tied or not; recompute
    readout: Row | None = (
        None  # of an output layer that shares the table, or has its own
    )
    left_out: tuple[str, ...] = ()  # beginnings of names that have no place here


class Config:
    """The settings of a ``config.json``, with the defaults of their family.

    Parameters
    ----------
    settings : mapping
    defaults : mapping
        Of those that may be missing.
    """

    def __init__(self, settings: Mapping[str, Any], defaults: Mapping[str, Any]):
        self.settings = {**defaults, **settings}

    def __getitem__(self, name: str) -> Any:
        return self.settings.get(name)

    def kind(self, name: str, *kinds: type) -> Any:
        """Return a setting of one of some kinds; true and false are no numbers."""
        value = self.settings.get(name)
        is_number = not isinstance(value, bool) or bool in kinds
        if not (isinstance(value, kinds) and is_number):
            expected = " or ".join(dict.fromkeys(KINDS[kind] for kind in kinds))
            raise ValueError(
                f"config.json: {name}: expected {expected}, got {value!r:.60}"
            )
        return value

    def number(self, name: str, least: int = 1, most: int = LARGEST_SIZE) -> int:
        """Return a setting that has to be a whole number."""
        value = self.settings.get(name)
        check_whole(f"config.json: {name}", value, least)
        if value > most:
            raise ValueError(
                f"config.json: {name}: expected at most {most}, got {value}"
            )
        return value

    def number_or(self, name: str, default: int) -> int:
        """Return a whole number, or the default where the setting is null."""
        return default if self[name] is None else self.number(name)

    def real(self, name: str, check: Callable = check_positive) -> float:
        """Return a setting that has to be a real number which passes a check."""
        value = self.kind(name, int, float)
        is_float = abs(value) <= sys.float_info.max
        check(f"config.json: {name}", value if is_float else float("inf"))
        return value

    def choice(self, name: str, choices: Mapping[str, str]) -> str:
        """Return what a setting is called here."""
        value = self.settings.get(name)
        check_choice(f"config.json: {name}", value, choices)
        return choices[value]

    def expect(self, **values: Any) -> None:
        """Raise ``ValueError`` where a setting asks for what the course does not have."""
        for name, expected in values.items():
            found = self.settings.get(name, expected)
            if found != expected:
                raise ValueError(
                    f"config.json: {name}: expected {expected!r}, got {found!r}"
                )


def name_of(activation: str, family: Mapping[str, str] = ACTIVATIONS) -> str:
    """Return what an activation of the course is called in the files."""
    for theirs, ours in family.items():
        if ours == activation:
            return theirs
    raise ValueError(
        f"feed_forward: expected one of {', '.join(sorted(set(family.values())))}, "
        f"got {activation!r}"
    )
