"""Write it yourself: the examiner, the mistakes that it knows, and exercises of your own."""

from transformer_practice.engine.examiner import examine
from transformer_practice.engine.exercise import Exercise, OpExercise
from transformer_practice.engine.points import Point, sampler
from transformer_practice.engine.report import Report

__all__ = ["Exercise", "OpExercise", "Point", "Report", "examine", "sampler"]
