"""Write it yourself: the examiner, and the mistakes that it knows."""

from transformer_practice.engine.examiner import examine
from transformer_practice.engine.report import Report

__all__ = ["Report", "examine"]
