"""Chapter 565: the scale of a step of Muon."""

from transformer_core.optim import muon_scale
from transformer_practice.engine.exercise import Exercise
from transformer_practice.exercises.structure import given


def scale_points():
    point = given("width_in width_out convention")
    return [
        point("generic", 12, 27, "original"),
        point("as AdamW", 12, 27, "match_rms_adamw"),
        point("fewer outputs than inputs", 64, 9, "original"),
        point("fewer outputs, as AdamW", 64, 9, "match_rms_adamw"),
        point("as many outputs", 16, 16, "original"),
        point("where the conventions agree", 25, 49, "original"),
        point("generic, other sizes", 7, 192, "match_rms_adamw"),
    ]


EXERCISES = [Exercise(forward=muon_scale, points=scale_points)]
