"""Chapter 120: the linear layer."""

from transformer_core import ops
from transformer_core.practice.exercise import (
    Function,
    OpExercise,
    Point,
    Theorem,
    normal,
    variants,
)


def linear_points():
    def draw(name, batch, length, width_in, width_out):
        return Point(
            name,
            {
                "x": normal(1, batch, length, width_in),
                "weight": normal(2, width_in, width_out),
                "bias": normal(3, width_out),
            },
            normal(4, batch, length, width_out),
            {"B": batch, "T": length, "D_in": width_in, "D_out": width_out},
        )

    generic = draw("generic", 3, 4, 5, 7)
    alone = {"x": generic.arguments["x"][:1], "cotangent": generic.cotangent[:1]}
    rows = {"x": generic.arguments["x"][0], "cotangent": generic.cotangent[0]}
    return [
        *variants(generic, {"one sequence": alone, "no batch axis": rows}),
        draw("generic, other sizes", 2, 5, 4, 3),
        draw("square weight", 3, 4, 5, 5),
    ]


def adjoint(point, outputs):
    """<dy, x W> - <dx, x>: the bias takes no part."""
    x, weight = point.arguments["x"], point.arguments["weight"]
    forth, back = (point.cotangent * (x @ weight)).sum(), (outputs["dx"] * x).sum()
    return abs(forth - back) / abs(forth)


EXERCISES = [
    OpExercise(
        name="linear",
        chapter="120_linear",
        forward=ops.linear,
        backward=ops.linear_backward,
        functions=(
            Function(
                "x, weight, bias",
                "x (..., D_in), weight (D_in, D_out), bias (D_out,) -> y (..., D_out), cache",
                "eq:linear",
            ),
            Function(
                "dy, cache",
                "dy (..., D_out) -> dx (..., D_in), dweight (D_in, D_out), dbias (D_out,)",
                "eq:linear-backward",
            ),
        ),
        inputs=("x", "weight", "bias"),
        points=linear_points,
        hints=(
            "Write down the shapes of dy, x and W. For each of the three gradients there is one "
            "way to make its shape of two of them.",
            "The same W and b serve every position of every sequence, so their gradients are sums "
            "over all of these positions.",
            "Flatten the leading axes of x and of dy first. A sum over positions of products of "
            "an entry of x with an entry of dy is then one matrix product.",
        ),
        theorems=(
            Theorem("<dy, x W> = <dx, x>: the backward pass is the adjoint", adjoint),
        ),
    ),
]
