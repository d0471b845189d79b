"""What all layers and models made of other layers share."""

from transformer_core.foundation.names import join


class Layer:
    """A layer made of other layers, found in ``self.sublayers`` by name.

    A layer that owns arrays itself, such as ``Linear``, defines ``parameters`` instead.
    """

    def parameters(self):
        """Return every parameter under its dotted name: the arrays themselves, not copies."""
        return join(
            {name: layer.parameters() for name, layer in self.sublayers.items()}
        )
