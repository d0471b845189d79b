"""Masked language modelling: a Mini-BERT, trained on the documentation that is installed."""

from transformer_core.tasks.bert.recipe import load

__all__ = ["load"]
