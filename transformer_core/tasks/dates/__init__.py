"""Dates as people write them, read into ISO 8601 by an encoder-decoder."""

from transformer_core.tasks.dates.characters import Characters
from transformer_core.tasks.dates.data import LANGUAGES, Dates, normalise, split_days
from transformer_core.tasks.dates.reader import DateReader
from transformer_core.tasks.dates.recipe import load
from transformer_core.tasks.dates.rules import DateRules

__all__ = [
    "LANGUAGES",
    "Characters",
    "DateReader",
    "DateRules",
    "Dates",
    "load",
    "normalise",
    "split_days",
]
