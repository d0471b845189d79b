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


def adam(self, name, parameter, grad, m, v):
    m *= self.beta1
    m += (1 - self.beta1) * grad
    v *= self.beta2
    v += (1 - self.beta2) * grad**2
    m_hat = m / (1 - self.beta1**self.steps)
    v_hat = v / (1 - self.beta2**self.steps)
    parameter -= self.learning_rate * m_hat / (np.sqrt(v_hat) + self.eps)


def adamw(self, name, parameter, grad, m, v):
    if name.split(".")[-1] not in self.undecayed:
        parameter *= 1 - self.learning_rate * self.weight_decay
    adam(self, name, parameter, grad, m, v)


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
    UpdateExercise(forward=SGD.update, points=sgd_points),
    UpdateExercise(forward=Adam.update, plain=(adam,), points=adam_points),
    UpdateExercise(forward=AdamW.update, plain=(adamw,), points=adamw_points),
    UpdateExercise(forward=RMSprop.update, points=rmsprop_points),
]
