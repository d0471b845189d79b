"""Chapter 575: several tokens are drafted, and one pass of the model judges them."""

import numpy as np

from transformer_core.models import speculative
from transformer_practice.engine.exercise import Exercise
from transformer_practice.engine.points import Point
from transformer_practice.exercises.structure import given


def judged(name, p, q, drafted):
    arguments = {"p": np.array(p), "q": np.array(q), "drafted": np.array(drafted)}
    return Point(name, arguments, sizes={"N": len(p), "V": len(p[0])})


def judging_points():
    p = np.array([[0.5, 0.2, 0.2, 0.1], [0.1, 0.6, 0.05, 0.25], [0.3, 0.3, 0.15, 0.25]])
    q = np.array([[0.2, 0.4, 0.1, 0.3], [0.4, 0.1, 0.3, 0.2], [0.25, 0.45, 0.25, 0.05]])
    return [
        judged("generic", p, q, [1, 0, 2]),
        judged("drafts that p prefers", p, q, [0, 1, 3]),
        judged("the drafter is the model", p, p, [2, 1, 0]),
        judged("a draft that p rules out", [[0.0, 0.75, 0.25]], [[0.5, 0.3, 0.2]], [0]),
        judged("tokens that are never drafted", [[0.4, 0.35, 0.25]], [[0.0, 1.0, 0.0]], [1]),
        judged("greedy", [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]] * 2, [1, 1]),
        judged(
            "generic, other sizes", p[:2, 1:] / p[:2, 1:].sum(1)[:, None], q[:2, :3] / 0.9, [2, 0]
        ),
    ]


def expected_points():
    point = given("rate drafts", lambda rate, drafts: {"drafts": drafts})
    return [
        point("generic", 0.6, 3),
        point("one draft", 0.7, 1),
        point("all are accepted", 1.0, 4),
        point("none is accepted", 0.0, 2),
        point("generic, other sizes", 0.35, 5),
    ]


EXERCISES = [
    Exercise(forward=speculative.accept_or_resample, points=judging_points),
    Exercise(forward=speculative.expected_tokens, points=expected_points),
]
