"""Chapter 420: the gradients of shards."""

from dataclasses import dataclass

import numpy as np

from transformer_core.training import combine
from transformer_practice.engine.exercise import Exercise, Misfit, kind
from transformer_practice.engine.points import Point, normal


@dataclass(frozen=True, kw_only=True, eq=False)
class CombineExercise(Exercise):
    """``combine(parts)``: parts go in and come out as (weight, loss, grads)."""

    def run_forward(self, function, point, call, dtype=np.float64):
        value = call(function, *self.arguments(point, dtype))
        if not isinstance(value, tuple) or len(value) != 3:
            raise Misfit(f"returns {kind(value)}, expected weight, loss, grads")
        weight, loss, grads = value
        names = point.arguments["parts"][0][2].keys()
        if not isinstance(grads, dict) or grads.keys() != names:
            raise Misfit(f"grads: expected a dict with the names {', '.join(names)}")
        outputs = {"weight": weight, "loss": loss}
        outputs |= {f"gradient of {name}": grads[name] for name in names}
        return {name: np.asarray(array) for name, array in outputs.items()}, None


def parts_points():
    def draw(name, counts, *shape):
        parts = [
            (
                count,
                float(normal(10 + i)),
                {"weight": normal(20 + i, *shape), "bias": normal(30 + i, shape[-1])},
            )
            for i, count in enumerate(counts)
        ]
        sizes = {"J": len(counts), "M": sum(counts), "n_1": counts[0]}
        return Point(name, {"parts": parts}, sizes=sizes)

    generic = draw("generic", (10, 30, 7), 4, 5)
    equal = [(10, *rest) for _, *rest in generic.arguments["parts"]]
    first, second, third = generic.arguments["parts"]
    return [
        generic,
        generic.variant("equal counts", parts=equal),
        generic.variant("one part", parts=[first]),
        generic.variant("a part with nothing counted", parts=[first, (0, *second[1:]), third]),
        generic.variant("nothing counted in the first", parts=[(0, *first[1:]), second, third]),
        draw("generic, other sizes", (3, 11), 2, 3),
    ]


EXERCISES = [CombineExercise(forward=combine, points=parts_points)]
