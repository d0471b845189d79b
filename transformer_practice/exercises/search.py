"""Chapter 630: vectors of length 1, and the contrastive loss."""

import numpy as np

from transformer_core import ops
from transformer_practice.engine.exercise import OpExercise, Theorem
from transformer_practice.engine.points import normal, sampler
from transformer_practice.exercises.structure import difference, same_products, zero_sums


def l2_normalize_points():
    draw = sampler("B D", x="B D", cotangent="B D")
    generic = draw("generic", 4, 5)
    x = 3 * generic.arguments["x"]
    zeros = x.copy()
    zeros[2] = 0.0
    unit, _ = ops.l2_normalize(x)
    return [
        generic.variant("generic", x=x),
        generic.variant("length 1 already", x=unit),
        generic.variant("a cotangent along the rows", x=x, cotangent=2.0 * x),
        generic.variant("a cotangent across the rows", x=x, cotangent=across(x)),
        generic.variant("a row of zeros", x=zeros),
        generic.sliced("one row", np.s_[:1], "x"),
        draw("generic, other sizes", 3, 7),
    ]


def across(x):
    """Draw rows that are orthogonal to those of x."""
    rows, (unit, _) = normal(5, *x.shape), ops.l2_normalize(x)
    return rows - unit * (rows * unit).sum(axis=-1, keepdims=True)


def along_the_row(point, outputs):
    x = point.arguments["x"]
    return np.abs((outputs["dx"] * x).sum(axis=-1)).max() / np.abs(point.cotangent).max()


def l2_normalize_terms(point):
    y, (_, inv_length) = ops.l2_normalize(**point.arguments)
    dy = point.cotangent
    return {
        "the term without the length": inv_length * dy,
        "the projection": -inv_length * y * (y * dy).sum(axis=-1, keepdims=True),
    }


def contrastive_points():
    draw = sampler(
        "B S D", query="B D", key="S D", temperature=lambda: np.array(0.4), cotangent=-1.7
    )
    generic = draw("generic", 4, 6, 5)
    query, key, _ = generic.arguments.values()
    return [
        generic,
        generic.variant("as many keys as queries", key=key[:4]),
        generic.variant("temperature 1", temperature=np.array(1.0)),
        generic.variant("cotangent 1", cotangent=1.0),
        generic.variant("queries that are their keys", query=key[:4].copy()),
        generic.variant("one query", query=query[:1]),
        generic.variant("a low temperature", temperature=np.array(0.002)),
        draw("generic, other sizes", 3, 3, 7),
    ]


def agrees_with_the_temperature(point, outputs):
    query, _, temperature = point.arguments.values()
    return difference((outputs["dquery"] * query).sum(), -temperature * outputs["dtemperature"])


def contrastive_terms(which):
    def terms(point):
        query, key, temperature = point.arguments.values()
        B, S = len(query), len(key)
        p, _ = ops.softmax(query @ key.T / temperature)
        scale = point.cotangent / (B * temperature)
        if which == "dquery":
            return {"all the keys": scale * p @ key, "its own key": -scale * key[:B]}
        return {
            "all the queries": scale * p.T @ query,
            "its own query": -scale * np.eye(S, B) @ query,
        }

    return terms


EXERCISES = [
    OpExercise(
        forward=ops.l2_normalize,
        inputs=("x",),
        points=l2_normalize_points,
        theorems=(Theorem("<dx, x> = 0 in every row", along_the_row),),
        terms={"dx": l2_normalize_terms},
    ),
    OpExercise(
        forward=ops.contrastive_loss,
        inputs=("query", "key", "temperature"),
        points=contrastive_points,
        theorems=(
            zero_sums("the gradients of the keys sum to 0", "dkey", axis=0),
            same_products("<dquery, query> = <dkey, key>", "query", "key"),
            Theorem("<dquery, query> = -temperature dtemperature", agrees_with_the_temperature),
        ),
        terms={"dquery": contrastive_terms("dquery"), "dkey": contrastive_terms("dkey")},
    ),
]
