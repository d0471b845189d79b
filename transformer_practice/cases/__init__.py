"""Blind cases: trainings under a mistake that you name, and tests that you test."""

from transformer_practice.cases.museum import Museum
from transformer_practice.cases.survivors import Survivors, survivors

__all__ = ["Museum", "Survivors", "survivors"]
