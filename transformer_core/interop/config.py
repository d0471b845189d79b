"""What the families share of reading and writing ``config.json``."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from transformer_core.foundation.checks import check_choice, check_positive_int
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

    def number(self, name: str) -> int:
        """Return a setting that has to be a positive whole number."""
        value = self.settings.get(name)
        check_positive_int(f"config.json: {name}", value)
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
