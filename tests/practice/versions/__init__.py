"""What different readers write: right versions, mistakes planted in them, and mistakes of no name.

A version is a class that holds the functions of one exercise; a mistake is an edit of its source.
Each file has RIGHT: exercise to versions, PLANTED: (version, name in the catalogue, edits), and
UNKNOWN: (version, what is wrong, edits). An exercise other than the version's first may follow.
What is dropped is drawn as the package draws it.
"""

import sys
from inspect import getsource, isfunction
from typing import NamedTuple

from practice.versions import (
    activations,
    attention,
    cross_entropy,
    dropout,
    embedding,
    layer_norm,
    layers,
    linear,
    many_machines,
    mean_squared_error,
    norm_over_ranks,
    one_layer,
    optimizers,
    outer_step,
    rearranging,
    softmax,
)

FILES = (
    linear,
    softmax,
    cross_entropy,
    mean_squared_error,
    layer_norm,
    activations,
    attention,
    embedding,
    rearranging,
    dropout,
    layers,
    many_machines,
    norm_over_ranks,
    optimizers,
    one_layer,
    outer_step,
)


class Answer(NamedTuple):
    """What one reader has written for an exercise."""

    exercise: str
    version: type
    label: str  # a name in the catalogue, or what is wrong
    edits: dict = {}

    @property
    def group(self):
        """What the exercise is about: the title of its file."""
        module = sys.modules[self.version.__module__]
        return module.__doc__.partition(" as ")[0]

    def functions(self):
        """Return the functions as ``examine`` takes them."""
        source = getsource(self.version)
        for right, wrong in self.edits.items():
            if source.count(right) != 1:
                raise ValueError(
                    f"{self.version.__name__}, {self.label}: expected this text once, "
                    f"found it {source.count(right)} times: {right}"
                )
            source = source.replace(right, wrong)
        namespace = dict(vars(sys.modules[self.version.__module__]))
        exec(compile(source, f"<{self.version.__name__}>", "exec"), namespace)
        written = vars(namespace[self.version.__name__]).values()
        functions = (value for value in written if isfunction(value))
        return dict(zip(("forward", "backward"), functions, strict=False))


RIGHT = [
    Answer(exercise, version, "right")
    for file in FILES
    for exercise, versions in file.RIGHT.items()
    for version in versions
]
EXERCISE = {answer.version: answer.exercise for answer in reversed(RIGHT)}


def answers(mistakes):
    """Return the answers with these mistakes."""
    return [
        Answer(*exercise or [EXERCISE[version]], version, label, edits)
        for version, label, edits, *exercise in mistakes
    ]


PLANTED = answers(mistake for file in FILES for mistake in file.PLANTED)
UNKNOWN = answers(mistake for file in FILES for mistake in file.UNKNOWN)
