"""What all layers and models share."""

from collections.abc import Callable

import numpy as np

from transformer_core.foundation.names import join


class Layer:
    """A layer, or a model: what it learns and what it is made of are its attributes.

    Its arrays are parameters, and so are those of every attribute that has parameters: replacing a
    part replaces its parameters. A cache holds the parameters themselves, not copies: call
    ``backward`` before the next step of the optimiser.
    """

    forward: Callable[..., tuple]
    backward: Callable[..., tuple]

    def sublayers(self) -> dict:
        """Return the layers that it is made of, by name: of a list ``layers``, ``layer_0``, ...

        One that is there under two names counts under the first.
        """
        found: dict = {}
        for name, value in vars(self).items():
            parts = {name: value}
            if isinstance(value, list):
                parts = {
                    f"{name.removesuffix('s')}_{i}": v for i, v in enumerate(value)
                }
            for part, layer in parts.items():
                if hasattr(layer, "parameters") and layer not in found.values():
                    found[part] = layer
        return found

    def parameters(self) -> dict[str, np.ndarray]:
        """Return every parameter under its dotted name: the arrays themselves, not copies."""
        own = {
            n: value for n, value in vars(self).items() if isinstance(value, np.ndarray)
        }
        return own | join(
            {name: layer.parameters() for name, layer in self.sublayers().items()}
        )
