"""What a small change of the reader's own functions puts right."""

import re
from collections.abc import Sequence

import numpy as np

from transformer_practice.engine.explain.stage import FEW, Explanation, Stage, listed
from transformer_practice.engine.running import ENDLESS, Failed
from transformer_practice.engine.runs import LEFT, SELF, Run, changed_arguments, runs_agree

SEVERAL = 3  # changes that are said where little tells them apart
FEWEST = 100  # below it, whole numbers agree by chance
COMBINED = re.compile(r"`\([^`]+ [-*/+] [^`]+\)` replaced")  # one value with another


def by_own_changes(stage: Stage, names: Sequence[str]) -> tuple[Explanation | None, dict[str, str]]:
    """Find a change, or two, with which the pass is right at every point, or outputs of it are.

    Or one with which it is right at every generic point. Returns what is said of the whole pass,
    and a sentence, without its name, for each of the outputs that is right with a change of its
    own.
    """
    endless = any(ENDLESS in run.failure for run in stage.own)
    if endless or SELF in stage.wrong or is_one_truth(stage):
        return None, {}
    apart = [name for name in names if name and tells_much(stage, {name})]
    if len(stage.wrong) == 1 or len(apart) > FEW or any(n.endswith(LEFT) for n in stage.wrong):
        apart = []
    most = 1 if are_wrong(stage)[0] and tells_much(stage) else SEVERAL
    try:
        found = stage.repairs(*asked_at(stage), apart, most)
    except Failed:  # with a change they end their process
        return None, {}
    outputs = [name for name in stage.wrong if name and not name.endswith(LEFT)]
    who = listed(outputs, FEW) if outputs else "It"
    whole = found.pop("", []) or found.pop("two", [])
    if is_one_number(stage):
        whole = [said for said in whole if not COMBINED.search(said)]
    if whole:
        first, *others = whole
        text = f"{who} would be right if, {first}." + "".join(
            f"\nOr if, {other}." for other in others
        )
        return Explanation(text), {}
    if generic := found.pop("generic", []):
        said, *left = generic
        return Explanation(
            f"{who} would be right if, {said}, except at these points: {'; '.join(left)}."
        ), {}
    return None, {name: f"would be right if, {said}." for name, (said,) in found.items()}


def asked_at(stage: Stage) -> tuple[list[str], list[Run]]:
    """Return the names of the points and what is right there, those first that are wrong."""
    wrong = are_wrong(stage)
    order = sorted(range(len(wrong)), key=lambda at: not wrong[at])
    return [stage.points[at].name for at in order], [stage.right[at] for at in order]


def are_wrong(stage):
    return [
        not runs_agree(own, right) or changed_arguments([own])
        for own, right in zip(stage.own, stage.right, strict=True)
    ]


def is_one_truth(stage):
    """Tell whether all that is wrong is one True or False at one point."""
    return is_one_number(stage) and all(a.dtype == bool for a in stage.right[0].outputs.values())


def is_one_number(stage):
    """Tell whether all that is wrong is one number at one point."""
    pairs = zip(stage.right, are_wrong(stage), strict=True)
    arrays = [array for right, wrong in pairs if wrong for array in right.outputs.values()]
    return sum(map(np.size, arrays)) == 1


def tells_much(stage, only=None):
    """Tell whether a change that puts outputs right can hardly do so by chance."""
    outputs = stage.right[0].outputs
    arrays = [np.ravel(1.0 * outputs[n]) for n in outputs if not only or n in only]
    values = np.concatenate([np.zeros(0), *arrays])
    values = values[np.isfinite(values)]
    return bool((values % 1).any() or np.abs(values).max(initial=0) >= FEWEST)
