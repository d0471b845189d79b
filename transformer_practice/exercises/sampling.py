"""Chapter 570: the next token is drawn, and read with a cache."""

from typing import Any

import numpy as np

from transformer_core import ops
from transformer_core.models import sampling
from transformer_practice.engine.exercise import Exercise
from transformer_practice.engine.points import Point
from transformer_practice.exercises.structure import given


class Given(np.random.Generator):
    """A generator that draws given numbers."""

    def __init__(self, numbers):
        super().__init__(np.random.PCG64(0))
        self.numbers = numbers

    def random(self, size=None, *_):
        return self.numbers.reshape(size)


def top_p_keep(probabilities: np.ndarray, share: float) -> np.ndarray:
    """Return which tokens top-p leaves, as booleans (eq:top-p)."""
    return sampling.top_p(np.log(probabilities), share) > -np.inf


def penalised(logits: np.ndarray, seen: np.ndarray, penalty: float) -> np.ndarray:
    """Return the logits after the repetition penalty (eq:repetition-penalty)."""
    return sampling.repetition_penalty(logits, seen, penalty)


def drawn_tokens(probabilities: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the token of each row on whose interval the row's number falls (eq:draw)."""
    rng: Any = Given(numbers)
    return sampling.draw(probabilities, rng)


def share_points():
    p = np.array([0.08, 0.31, 0.02, 0.19, 0.27, 0.13])
    rows = np.stack([p, p[::-1], np.roll(p, 2)])
    many = 0.8 ** np.arange(12)
    point = given("probabilities share", lambda p, share: {"V": p.shape[-1]})
    return [
        point("generic", rows, 0.7),
        point("one token has the share", rows, 0.25),
        point("a tiny share", rows, 1e-6),
        point("a share of nearly all", rows, 0.99),
        point("equally probable tokens", np.array([0.1, 0.3, 0.3, 0.3]), 0.4),
        point("generic, other sizes", np.array([[0.15, 0.5, 0.05, 0.3]]), 0.6),
        point("generic, many tokens", many[::-1] / many.sum(), 0.9),
    ]


def penalty_points():
    logits = np.array([[1.5, -0.7, 2.2, -1.1, 0.4], [-0.3, 0.9, -2.1, 1.2, 3.1]])
    seen = np.array([[True, True, False, False, True], [False, True, True, True, False]])
    generic = Point(
        "generic", {"logits": logits, "seen": seen, "penalty": 1.3}, sizes={"B": 2, "V": 5}
    )
    return [
        generic,
        generic.variant("all positive", logits=logits + 3.0),
        generic.variant("all negative", logits=logits - 4.0),
        generic.variant("nothing seen", seen=np.zeros_like(seen)),
        generic.variant("a penalty below 1", penalty=0.6),
        Point(
            "generic, other sizes",
            {"logits": logits[:, :3] - 0.5, "seen": seen[:, :3], "penalty": 2.0},
            sizes={"B": 2, "V": 3},
        ),
    ]


def drawing_points():
    def point(name, p, numbers):
        p = np.array(p)
        arguments = {"probabilities": p, "numbers": np.array(numbers)}
        return Point(name, arguments, sizes={"B": len(p), "V": p.shape[1]})

    p = [[0.2, 0.5, 0.3], [0.6, 0.1, 0.3], [0.25, 0.25, 0.5]]
    return [
        point("generic", p, [0.65, 0.35, 0.81]),
        point("the number 0", [[0.0, 0.4, 0.6], [0.3, 0.7, 0.0]], [0.0, 0.0]),
        point("a token of probability 0", [[0.25, 0.0, 0.75]] * 3, [0.2, 0.25, 0.3]),
        point("nearly 1, and the last impossible", [[0.5, 0.5, 0.0]], [1 - 2**-53]),
        point("a sum short of 1 by rounding", [[0.3, 0.3, 0.3999999]], [1 - 2**-53]),
        point("a sum short of 1, and the last impossible", [[0.6, 0.3999999, 0.0]], [1 - 2**-53]),
        point("generic, other sizes", [[0.1, 0.2, 0.3, 0.4]] * 2, [0.15, 0.55]),
    ]


def cache_points():
    point = given("past new", lambda past, new: {"past": past, "new": new})
    return [
        point("generic", 4, 3),
        point("nothing has been read", 0, 4),
        point("one new position", 5, 1),
        point("more new than old", 2, 6),
        point("generic, other sizes", 7, 2),
    ]


EXERCISES = [
    Exercise(forward=top_p_keep, points=share_points),
    Exercise(forward=penalised, points=penalty_points),
    Exercise(forward=drawn_tokens, points=drawing_points),
    Exercise(forward=ops.cached_keep, points=cache_points),
]
