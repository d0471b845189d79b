"""Chapter 350: masking, and the credits of a mixture."""

from dataclasses import dataclass

import numpy as np

from transformer_core.tasks.bert.masking import mask
from transformer_core.tasks.texts.wordpiece import MASK, SPECIAL_TOKENS
from transformer_practice.engine.exercise import Exercise, Misfit, Theorem, kind, pair
from transformer_practice.engine.points import Draws, Point, normal, sampler

SPECIALS = len(SPECIAL_TOKENS)


@dataclass(frozen=True, kw_only=True, eq=False)
class MaskingExercise(Exercise):
    """What a random masking has in common with every other: counts, and shares in per cent."""

    def run_forward(self, function, point, call, dtype=np.float64):
        arguments = self.arguments(point, dtype)
        inputs, masked = pair(call(function, *arguments), "inputs, masked")
        ids = point.arguments["ids"]
        for name, array in (("inputs", inputs), ("masked", masked)):
            if not isinstance(array, np.ndarray) or array.shape != ids.shape:
                raise Misfit(f"{name}: expected an array of shape {ids.shape}, got {kind(array)}")
        if masked.dtype != bool:
            raise Misfit(f"masked: expected booleans, got {masked.dtype}")
        hidden, kept = inputs == MASK, inputs == ids
        replaced = masked & ~hidden & ~kept
        counts = {
            "tokens changed that are not drawn": (~kept & ~masked).sum(),
            "special tokens drawn": (masked & (ids < SPECIALS)).sum(),
            "special tokens put in": (replaced & (inputs < SPECIALS)).sum(),
            "at least one is drawn": int(masked.any()),
        }
        number = masked.sum()
        if number > 1000:
            shares = {
                "per cent drawn": number / (ids >= SPECIALS).sum(),
                "per cent of these hidden": (masked & hidden).sum() / number,
                "per cent of these replaced": replaced.sum() / number,
                "per cent of these kept": (masked & kept).sum() / number,
            }
            counts |= {name: np.rint(100 * share) for name, share in shares.items()}
        return {name: np.asarray(count) for name, count in counts.items()}, None


def mask_points():
    def draw(name, shape, vocabulary, **share):
        ids = np.random.default_rng(1).integers(0, vocabulary, shape)
        return Point(
            name,
            {"ids": ids, "vocabulary": vocabulary, "rng": Draws(1)} | share,
            sizes={"B": shape[0], "T": shape[1], "V": vocabulary},
        )

    generic = draw("generic", (400, 600), 5000)
    alone = np.full((2, 8), SPECIALS - 1)
    alone[1, 3] = 20
    return [
        generic,
        generic.variant("one token that is not special", ids=alone),
        generic.variant("ids of one byte", ids=(generic.arguments["ids"] % 100).astype(np.int8)),
        draw("a share too small to draw any", (4, 9), 50, share=1e-12),
        draw("generic, other sizes", (300, 500), 9000, share=0.4),
    ]


def draw(ids: np.ndarray, rng: np.random.Generator, share: float = 0.15) -> np.ndarray:
    """Draw a fixed number of tokens of each sequence, never special ones, as BERT's code does.

    In each row ``share`` of T, rounded, and at least one; fewer where fewer may be drawn.
    """
    candidates = ids >= SPECIALS
    number = max(1, round(share * ids.shape[1]))
    lots = np.where(candidates, rng.random(ids.shape), np.inf)
    limit = np.sort(lots, axis=1)[:, number - 1 : number]
    return candidates & (lots <= limit)


@dataclass(frozen=True, kw_only=True, eq=False)
class DrawExercise(Exercise):
    """How many tokens are drawn of each sequence, and whether each has its chance."""

    def run_forward(self, function, point, call, dtype=np.float64):
        ids, generator, share = self.arguments(point, dtype)
        rows = []
        for _ in range(60):
            masked = call(function, ids, generator, share)
            if not isinstance(masked, np.ndarray) or masked.dtype != bool:
                raise Misfit(f"masked: expected booleans {ids.shape}, got {kind(masked)}")
            if masked.shape != ids.shape:
                raise Misfit(f"masked: expected shape {ids.shape}, got {masked.shape}")
            rows.append(masked)
        often = np.sum(rows, axis=0)
        return {
            "tokens drawn of each sequence": rows[0].sum(axis=1),
            "special tokens drawn": often[ids < SPECIALS].sum(),
            "never drawn": ((often == 0) & (ids >= SPECIALS)).sum(),
        }, None


def draw_points():
    def point(name, share, *shape):
        ids = np.random.default_rng(1).integers(SPECIALS, 40, shape)
        ids[:, 0], ids[0, -2:] = 2, 3
        return Point(
            name,
            {"ids": ids, "rng": Draws(1), "share": share},
            sizes={"B": shape[0], "T": shape[1]},
        )

    generic = point("generic", 0.3, 4, 10)
    few = generic.arguments["ids"].copy()
    few[1, :-1] = 3
    return [
        generic,
        generic.variant("a share of less than one token", share=0.01),
        generic.variant("fewer candidates than lots", ids=few),
        generic.variant("every token", share=1.0),
        point("generic, other sizes", 0.55, 3, 7),
    ]


def credit_step(weights: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Give each table the mean of its credits for a new weight (eq:em)."""
    shares = weights * probabilities
    return (shares / shares.sum(axis=1, keepdims=True)).mean(axis=0)


def credit_points():
    def random_weights(K):
        weights = np.exp(normal(1, K))
        return weights / weights.sum()

    def random_probabilities(N, K):
        return np.exp(normal(2, N, K) - 2)

    draw = sampler("N K", weights=random_weights, probabilities=random_probabilities)
    generic = draw("generic", 7, 4)
    probabilities = generic.arguments["probabilities"]
    silent = probabilities.copy()
    silent[:, 1] = 0
    return [
        generic,
        generic.variant("equal weights", weights=np.full(4, 0.25)),
        generic.variant("one token", probabilities=probabilities[:1]),
        generic.variant("a table that is always wrong", probabilities=silent),
        draw("generic, other sizes", 5, 6),
    ]


def sum_of_weights(point, outputs):
    return abs(outputs["output"].sum() - 1)


EXERCISES = [
    MaskingExercise(forward=mask, points=mask_points),
    DrawExercise(forward=draw, points=draw_points),
    Exercise(
        forward=credit_step,
        points=credit_points,
        theorems=(Theorem("the new weights sum to 1", sum_of_weights),),
    ),
]
