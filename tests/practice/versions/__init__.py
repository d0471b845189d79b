"""What different readers write: right versions, mistakes planted in them, and mistakes of no name.

A version is a class that holds the functions of one exercise; a mistake is an edit of its source.
Each module has RIGHT: exercise to versions. The TOML file beside it has the mistakes: version,
label (a name in the catalogue where it is planted, what is wrong where it is unknown) and edits,
pairs of right and wrong text. An exercise other than the version's first may be named.
What is dropped is drawn as the package draws it.
"""

import sys
import tomllib
from importlib import import_module
from inspect import getsource, isfunction
from pathlib import Path
from typing import NamedTuple

from transformer_practice.mistakes import edits_of

NAMES = """linear softmax cross_entropy mean_squared_error layer_norm activations attention
    embedding rearranging dropout layers many_machines norm_over_ranks internet_scale optimizers
    one_layer gpt_over_ranks outer_step rotary grouped_queries
    sampling speculative tiled_attention few_bits fine_tuning search""".split()
MODULES = {name: import_module(f"practice.versions.{name}") for name in NAMES}


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
        about = f"{self.version.__name__}, {self.label}"
        source = edited(about, getsource(self.version), self.edits)
        namespace = dict(vars(sys.modules[self.version.__module__]))
        exec(compile(source, f"<{self.version.__name__}>", "exec"), namespace)
        written = vars(namespace[self.version.__name__]).values()
        functions = (value for value in written if isfunction(value))
        return dict(zip(("forward", "backward"), functions, strict=False))


def edited(about: str, source: str, edits: dict) -> str:
    """Return a source with the wrong text for the right one, which stands in it once."""
    for right, wrong in edits.items():
        if source.count(right) != 1:
            raise ValueError(
                f"{about}: expected this text once, found it {source.count(right)} times: {right}"
            )
        source = source.replace(right, wrong)
    return source


RIGHT = [
    Answer(exercise, version, "right")
    for module in MODULES.values()
    for exercise, versions in module.RIGHT.items()
    for version in versions
]
EXERCISE = {answer.version: answer.exercise for answer in reversed(RIGHT)}


def answers(file: str, kind: str, versions: dict) -> list[Answer]:
    """Return the answers of a kind that a file tells of; versions are found by their names."""
    content = tomllib.loads((Path(__file__).parent / file).read_text(encoding="utf-8"))
    return [
        Answer(entry.get("exercise", EXERCISE[version]), version, entry["label"], edits)
        for entry in content.get(kind, ())
        for version in [versions[entry["version"]]]
        for edits in [edits_of(entry["edits"])]
    ]


PLANTED, UNKNOWN = (
    [each for name in NAMES for each in answers(f"{name}.toml", kind, vars(MODULES[name]))]
    for kind in ("planted", "unknown")
)
