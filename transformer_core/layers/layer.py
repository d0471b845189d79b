"""What all layers and models share."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from transformer_core.foundation.names import join

CONTAINERS = list, tuple, dict, set, frozenset


class Layer:
    """A layer, or a model: what it learns and what it is made of are its attributes.

    An array is a parameter, or a buffer if ``buffers`` names it: a table that is not learnt. What
    has ``parameters`` is a part, and so is each layer of a list ``layers``: its name there is
    ``layer_0``, ... All else is a setting. Replacing a part replaces its parameters. A cache holds
    the parameters themselves, not copies: call ``backward`` before the next step of the optimiser.

    Raises
    ------
    ValueError
        By ``sublayers`` and ``parameters``: if a name is taken twice, or layers or arrays stand in
        a container where nothing would find them: a tuple, a dict, a list of lists.
    """

    buffers: tuple[str, ...] = ()
    forward: Callable[..., tuple]
    backward: Callable[..., tuple]

    def sublayers(self) -> dict:
        """Return the layers that it is made of, by name.

        One that is there under two names counts under the first.
        """
        found: dict = {}
        for attribute, value in vars(self).items():
            for name, layer in parts(attribute, value):
                if layer in found.values():
                    continue
                if name in found:
                    raise ValueError(f"{name}: expected one layer of the name, got two")
                found[name] = layer
        return found

    def parameters(self) -> dict[str, np.ndarray]:
        """Return every parameter under its dotted name: the arrays themselves, not copies."""
        own = {
            name: value
            for name, value in vars(self).items()
            if isinstance(value, np.ndarray) and name not in self.buffers
        }
        return own | join(
            {name: layer.parameters() for name, layer in self.sublayers().items()}
        )

    def set_parameters(self, arrays: dict[str, np.ndarray]) -> None:
        """Put arrays, perhaps of other shapes, in place of the parameters of these names."""
        unknown = arrays.keys() - self.parameters().keys()
        if unknown:
            raise ValueError(
                f"arrays: expected names of parameters, got {min(unknown)!r}"
            )
        of_parts: dict[str, dict[str, np.ndarray]] = {}
        for name, array in arrays.items():
            part, _, rest = name.partition(".")
            if rest:
                of_parts.setdefault(part, {})[rest] = array
            else:
                setattr(self, name, array)
        sublayers = self.sublayers()
        for part, own in of_parts.items():
            sublayers[part].set_parameters(own)


class Wrapper(Layer):
    """A layer around another, whose parameters keep their names and whose attributes are its own.

    Parameters
    ----------
    layer : layer
    """

    def __init__(self, layer: Any):
        self.layer = layer

    def __getattr__(self, name: str) -> Any:
        if name == "layer":  # not there yet: a copy is being made
            raise AttributeError(name)
        return getattr(self.layer, name)

    def sublayers(self) -> dict:
        return self.layer.sublayers()

    def parameters(self) -> dict[str, np.ndarray]:
        return self.layer.parameters()

    def set_parameters(self, arrays: dict[str, np.ndarray]) -> None:
        self.layer.set_parameters(arrays)


def member(name: str, i: int) -> str:
    """Return the name of a layer in a list: of ``layers``, ``layer_0``, ``layer_1``, ..."""
    return f"{name.removesuffix('s')}_{i}"


def parts(name: str, value: object) -> Iterator[tuple[str, Any]]:
    """Go through the layers of an attribute, with their names."""
    if isinstance(value, list):
        members = {member(name, i): entry for i, entry in enumerate(value)}
    else:
        members = {name: value}
    for part, entry in members.items():
        if hasattr(entry, "parameters"):
            yield part, entry
        elif entry is not value and isinstance(entry, np.ndarray) or hides(entry):
            raise ValueError(
                f"{name}: expected layers and arrays as attributes, or layers in a list, "
                f"got them in a {type(value).__name__}"
            )


def hides(value: object) -> bool:
    """Tell whether a container holds layers or arrays, however deep."""
    if not isinstance(value, CONTAINERS):
        return False
    entries = value.values() if isinstance(value, dict) else value
    return any(
        hasattr(entry, "parameters") or isinstance(entry, np.ndarray) or hides(entry)
        for entry in entries
    )
