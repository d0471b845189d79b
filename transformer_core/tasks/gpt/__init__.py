"""Language modelling: byte pairs, and a GPT that writes what it has read in the documentation."""

from transformer_core.tasks.gpt.recipe import load

__all__ = ["load"]
