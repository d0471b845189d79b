"""Which of the reader's own values are right on the way to a wrong output."""

from difflib import SequenceMatcher
from inspect import signature

import numpy as np

from transformer_practice.engine.explain.stage import FEW, listed
from transformer_practice.engine.runs import as_the_page_has_it, close, runs_agree, values_at


def by_values(stage):
    """Compare the local variables of the reader's function with those of the package's.

    What both are given counts for neither, nor does what a forward pass has computed, in a
    backward pass; nor what has the name of an output that is wrong, as has been said.
    """
    exercise = stage.exercise
    runs = zip(stage.points, stage.own, stage.right, strict=True)
    wrong = ((p, r) for p, own, r in runs if not own.failure and not runs_agree(own, r))
    point, right = next(wrong, (None, None))
    if not point:
        return ""
    plain = as_the_page_has_it(exercise) if exercise.plain else exercise
    given = [*point.arguments.values(), point.cotangent, *right.outputs.values()]
    if stage.name == "backward":
        given += values_at(plain, point, "forward").values()
    values = values_at(plain, point, stage.name)
    aside = set(stage.wrong)
    if exercise.in_place:
        aside |= signature(exercise.forward).parameters.keys()
    ours = {n: v for n, v in values.items() if n not in aside and is_new(v, given)}
    theirs = stage.values(point.name)
    theirs = {n: v for n, v in theirs.items() if n not in aside and is_new(v, given)}
    said, first = [], ""
    for name, value in theirs.items():
        alike = [n for n, v in ours.items() if close(v, value)]
        same = max(alike, key=lambda n: SequenceMatcher(None, n, name).ratio(), default=None)
        if name in ours and not close(ours[name], value):
            other = f", but its `{same}`" if same else ""
            first = first or f"`{name}` is not what the package has under this name{other}"
        elif same:
            said.append(f"`{name}`" + f" (the package's `{same}`)" * (same != name))
    right = f"{listed(said, FEW)} {'is' if len(said) == 1 else 'are'} right" if said else ""
    found = "; ".join(filter(None, (right, first)))
    step = " in the first step" * exercise.in_place  # what is seen is its first call
    return f"Along the way{step}, {found}." if found else ""


def is_new(value, given):
    """Tell whether a value is an array of several numbers, and none of those that are given."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or value.size < 2:
        return False
    arrays = (each for each in given if isinstance(each, np.ndarray) and each.dtype.kind == "f")
    return not any(close(value, each) for each in arrays)
