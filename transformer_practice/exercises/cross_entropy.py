"""Chapter 140: cross-entropy."""

import numpy as np

from transformer_core import ops
from transformer_practice.engine.exercise import OpExercise, Theorem
from transformer_practice.engine.points import Point, normal, sampler
from transformer_practice.exercises.structure import zero_sums


def cross_entropy_points():
    def draw(name, B, T, V, smoothing):
        rng = np.random.default_rng(3)
        weights = rng.integers(1, 6, (B, T))
        weights[0, 1] = 0
        targets = rng.integers(V, size=(B, T))
        return Point(
            name,
            {
                "logits": normal(1, B, T, V),
                "targets": targets,
                "weights": weights,
                "smoothing": smoothing,
            },
            -1.7,
            {"B": B, "T": T, "N": B * T, "V": V, "the sum of the weights": weights.sum()},
        )

    generic = draw("generic", 3, 4, 5, 0.3)
    logits, targets, weights, _ = generic.arguments.values()
    masked = weights > 2
    return [
        generic,
        generic.variant("no weights", weights=None),
        generic.variant("no smoothing", smoothing=0),
        generic.variant("no weights, no smoothing", weights=None, smoothing=0),
        generic.variant("masked positions alone", weights=masked, smoothing=0),
        generic.variant("cotangent 1", cotangent=1.0),
        generic.variant(
            "one position", logits=logits[:1, :1], targets=targets[:1, :1], weights=None
        ),
        generic.variant("no batch axis", logits=logits[0], targets=targets[0], weights=weights[0]),
        generic.variant("equal logits", logits=np.zeros(logits.shape)),
        generic.variant("large logits", logits=800.0 * logits),
        generic.variant("one target everywhere", targets=np.full_like(targets, 2)),
        generic.variant(
            "not in C order",
            logits=logits.swapaxes(0, 1).copy().swapaxes(0, 1),
            weights=np.asfortranarray(weights),
        ),
        draw("generic, other sizes", 2, 5, 4, 0.2),
    ]


def plain(logits, targets, weights=None, smoothing=0):
    weights = np.ones(targets.shape) if weights is None else weights
    V = logits.shape[-1]
    right = (1 - smoothing) * np.eye(V)[targets] + smoothing / V
    surprise = -(right * ops.log_softmax(logits)).sum(axis=-1)
    share = weights / weights.sum()
    return (share * surprise).sum(), (ops.softmax(logits)[0], right, share)


def plain_backward(dloss, cache):
    p, right, share = cache
    return dloss * share[..., np.newaxis] * (p - right)


def nothing_where_nothing_counts(point, outputs):
    weights = point.arguments["weights"]
    if weights is None:
        return 0.0
    return np.abs(outputs["dlogits"] * (weights == 0)[..., np.newaxis]).max()


def cross_entropy_terms(point):
    logits, targets, weights, smoothing = point.arguments.values()
    p, _ = ops.softmax(logits)
    weights = np.ones(targets.shape) if weights is None else weights
    scale = (point.cotangent * weights / weights.sum())[..., np.newaxis]
    terms = {
        "the probabilities": scale * p,
        "the right token": -(1 - smoothing) * scale * np.eye(p.shape[-1])[targets],
    }
    if smoothing:
        terms["the smoothing"] = -smoothing / p.shape[-1] * scale * np.ones_like(p)
    return terms


def distillation(logits, q):
    return -(q * ops.log_softmax(logits)).sum(axis=-1).mean(), (logits, q)


def distillation_backward(dloss, cache):
    logits, q = cache
    return (np.exp(ops.log_softmax(logits)) - q) * dloss * (q.shape[-1] / q.size)


def soft_target_points(draw_targets, special):
    """Points of logits and soft targets; ``special`` makes others of the generic targets."""
    draw = sampler(
        "B T V", logits="B T V", q=draw_targets, cotangent=-1.7, sizes={"N": lambda B, T: B * T}
    )
    generic = draw("generic", 3, 4, 5)
    logits, q = generic.arguments.values()
    return [
        generic,
        *(generic.variant(name, q=targets) for name, targets in special(q).items()),
        generic.variant("cotangent 1", cotangent=1.0),
        generic.variant("one position", logits=logits[:1, :1], q=q[:1, :1]),
        generic.variant("large logits", logits=800.0 * logits),
        draw("generic, other sizes", 2, 5, 4),
    ]


def distillation_points():
    return soft_target_points(
        lambda B, T, V: ops.softmax(normal(2, B, T, V))[0],
        lambda q: {"one right token": np.eye(5)[q.argmax(axis=-1)]},
    )


def soft_target_terms(point):
    logits, q = point.arguments.values()
    scale = point.cotangent * q.shape[-1] / q.size
    mass = q.sum(axis=-1, keepdims=True)  # 1, but for targets that are no distributions
    return {
        "the probabilities": scale * mass * ops.softmax(logits)[0],
        "the right answer": -scale * q,
    }


EXERCISES = [
    OpExercise(
        forward=ops.cross_entropy,
        plain=(plain, plain_backward),
        inputs=("logits",),
        points=cross_entropy_points,
        theorems=(
            zero_sums("every row of dlogits sums to 0", "dlogits"),
            Theorem("a position of weight 0 has the gradient 0", nothing_where_nothing_counts),
        ),
        terms={"dlogits": cross_entropy_terms},
    ),
    OpExercise(
        forward=distillation,
        inputs=("logits",),
        points=distillation_points,
        theorems=(zero_sums("every row of dlogits sums to 0", "dlogits"),),
        terms={"dlogits": soft_target_terms},
    ),
]
