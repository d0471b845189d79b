"""Layers composed to models."""

from transformer_core.models.encoder import Encoder

__all__ = ["Encoder"]
