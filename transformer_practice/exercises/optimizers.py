"""Chapter 240: optimisers."""

import numpy as np

from transformer_core.optim import SGD, Adam, AdamW
from transformer_core.optim.optimizer import Optimizer
from transformer_practice.engine.exercise import UpdateExercise
from transformer_practice.engine.points import Point, normal

SHAPES = {"layer.weight": (3, 5), "layer.bias": (5,)}


def points(build, special, shapes=SHAPES):
    """The generic points of an optimiser of parameters of these shapes, and its special ones."""

    def draw(name, seed, names, steps):
        grads = [gradients(seed + 10 * t, shapes, names) for t in range(1, steps + 1)]
        arguments = {"build": build, "parameters": gradients(seed, shapes, names), "steps": grads}
        return Point(name, arguments)

    names = list(shapes)
    generic = draw("generic", 1, names, 3)
    first = gradients(11, shapes, names)
    nothing = {name: np.zeros(shape) for name, shape in shapes.items()}
    always = {
        "one step": {"steps": [first]},
        "a gradient that falls to 0": {"steps": [first, nothing, nothing]},
    }
    return [
        generic,
        *(generic.variant(name, **new) for name, new in (always | special).items()),
        draw("generic, other sizes", 100, names[:1], 2),
    ]


def gradients(seed, shapes, names):
    return {name: normal(seed + i, *shapes[name]) for i, name in enumerate(names)}


def sgd_points():
    return points(
        lambda parameters: SGD(parameters, 0.1, momentum=0.7),
        {"no momentum": {"build": lambda parameters: SGD(parameters, 0.1)}},
    )


def adam_points():
    return points(
        lambda parameters: Adam(parameters, 0.1, beta1=0.6, beta2=0.8, eps=0.3),
        {
            "a small eps": {"build": lambda parameters: Adam(parameters, 0.1, 0.6, 0.8, eps=1e-8)},
            "beta1 = beta2": {"build": lambda parameters: Adam(parameters, 0.1, 0.8, 0.8, eps=0.3)},
        },
    )


def adamw_points():
    def build(decay, undecayed=("bias", "gamma", "beta")):
        return lambda parameters: AdamW(parameters, 0.1, 0.6, 0.8, 0.3, decay, undecayed)

    return points(
        build(0.4),
        {
            "no weight decay": {"build": build(0.0)},
            "everything decays": {"build": build(0.4, ())},
            "other parts of the names are said not to decay": {"build": build(0.4, ("layer", "b"))},
        },
    )


class RMSprop(Optimizer):
    """Step by the gradient over its root mean square, uncorrected."""

    def __init__(self, parameters, learning_rate, beta=0.99, eps=1e-8):
        super().__init__(parameters, learning_rate, "second_moment")
        self.beta, self.eps = beta, eps

    def update(self, name, parameter, grad, v):
        v *= self.beta
        v += (1 - self.beta) * grad**2
        parameter -= self.learning_rate * grad / (np.sqrt(v) + self.eps)


def rmsprop_points():
    return points(
        lambda parameters: RMSprop(parameters, 0.1, beta=0.8, eps=0.3),
        {"a small eps": {"build": lambda parameters: RMSprop(parameters, 0.1, 0.8, 1e-8)}},
    )


EXERCISES = [
    UpdateExercise(
        forward=SGD.update,
        shapes=(
            "Changes parameter and its velocity v in place. There are self.learning_rate and "
            "self.momentum; v is None where the momentum is 0",
        ),
        equations=("eq:momentum",),
        points=sgd_points,
        hints=(
            "Two lines of the equation are two changes in place: the velocity's, and the "
            "parameter's.",
            "What decays is the velocity, and what is added to it is the gradient as it is.",
            "Without momentum there is no velocity, and the gradient takes its place in the "
            "second line. Do not write into the gradient.",
        ),
    ),
    UpdateExercise(
        forward=Adam.update,
        shapes=(
            "Changes parameter and the averages m and v in place. There are self.learning_rate, "
            "self.beta1, self.beta2, self.eps, and self.steps, which is 1 at the first step",
        ),
        equations=("eq:adam",),
        points=adam_points,
        hints=(
            "m and v are what is remembered, and they are averages without correction: change "
            "them in place first.",
            "The corrected averages are new arrays. The next step wants the others.",
            "The root is taken of the corrected second moment, and epsilon is added after it.",
        ),
    ),
    UpdateExercise(
        forward=AdamW.update,
        shapes=(
            "Changes parameter, m and v in place. Beside what Adam has there are "
            "self.weight_decay, and self.undecayed: last parts of the dotted names of the "
            "parameters that do not decay",
        ),
        equations=("eq:adamw",),
        points=adamw_points,
        hints=(
            "The decay is beside the gradient and not in it: m and v never hear of it.",
            "By which factor does a parameter shrink if its gradient is 0? Both numbers of "
            "equation (eq:adamw) are in it.",
            "The name of a parameter has dots: its last part tells whether it decays. Then the "
            "step is Adam's.",
        ),
        within=("optim/adam.py",),
    ),
    UpdateExercise(
        forward=RMSprop.update,
        shapes=(
            "Changes parameter and the average v in place. There are self.learning_rate, "
            "self.beta and self.eps",
        ),
        equations=("eq:adam-moments",),
        points=rmsprop_points,
        hints=(
            "It is Adam without the first moment and without the correction.",
            "The step divides the gradient itself, not its average.",
            "Epsilon stands outside the root.",
        ),
        within=("optim/adam.py",),
    ),
]
