"""Write it yourself: the examiner, and the mistakes that it knows."""

from transformer_core.practice.examiner import examine
from transformer_core.practice.report import Report

__all__ = ["Report", "examine"]
