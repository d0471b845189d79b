"""Tasks for a pencil, one kind a chapter: whole numbers, exact answers, fresh for each seed.

``linear.toml`` has the words of a task, formulas between dollars, and ``linear.py`` draws its
numbers: those that are given, and for each step a list of the answer and of what its slips come to,
in their order.
"""

import tomllib
from importlib import import_module
from pathlib import Path
from random import Random

from transformer_practice.drills.drill import Drill, Step


def words_of(name: str) -> str:
    """The words of a task, as TOML."""
    return Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8")


def chapter_of(name):
    return tomllib.loads(words_of(name))["chapter"]


# In the order of the book.
DRILLS = tuple(sorted((path.stem for path in Path(__file__).parent.glob("*.toml")), key=chapter_of))


def draw(name: str, seed: int) -> Drill:
    """Draw a task.

    Parameters
    ----------
    name : str
        One of ``DRILLS``.
    seed : int
        The same seed gives the same task.

    Returns
    -------
    Drill

    Raises
    ------
    ValueError
        If there is no such drill.
    """
    if name not in DRILLS:
        raise ValueError(f"name: expected one of {', '.join(DRILLS)}, got {name!r}")
    words = tomllib.loads(words_of(name).replace("$", ""))
    numbers = getattr(import_module(f"{__name__}.{name}"), name)
    rng = Random(seed)
    while not (task := drill_of(words, *numbers(rng))).is_fair():
        pass
    return task


def drill_of(words, given, values):
    """Put the numbers of a task to its words."""
    steps = []
    for step, (answer, *wrong) in zip(words["steps"], values, strict=True):
        slips = dict(zip(step.get("slips", ()), wrong, strict=True))
        steps.append(Step(step["prompt"], answer, step["rule"], slips))
    return Drill(words["title"], words["chapter"], words["question"], given, tuple(steps))
