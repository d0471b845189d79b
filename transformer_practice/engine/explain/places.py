"""Where an output is wrong, and which entries of the arguments it depends on."""

import re

import numpy as np

from transformer_practice.engine.explain.stage import listed, numbers
from transformer_practice.engine.points import COTANGENT
from transformer_practice.engine.runs import TOLERANCE, close


def by_reach(output):
    """Find an entry that moves more of the output than it should, or less."""
    case = output.cases[0]
    if not case.own.ndim:
        return ""
    arrays = {n: a for n, a in case.point.arguments.items() if isinstance(a, np.ndarray)}
    places = {n: a for n, a in arrays.items() if a.dtype.kind == "f" and a.size}
    if output.stage.name == "backward" and np.ndim(case.point.cotangent):
        places[COTANGENT] = case.point.cotangent
    for key, array in places.items():
        again = output.stage.again(case.point, key, array).outputs.get(output.name)
        if again is not None and not close(numbers(again), case.own):
            return f"{output.name} differs at a second call with the same arguments."
        text = moved_by(output, case, key)
        if not text:
            continue
        masks = [n for n, a in arrays.items() if a.dtype == bool]
        bare = [c for c in output.all if any(c.point.arguments[n] is None for n in masks)]
        if masks and bare and key in bare[0].point.arguments | {COTANGENT: 0}:
            if not moved_by(output, bare[0], key):
                text += f' At the point "{bare[0].point.name}" this is right.'
        return text
    return ""


def moved_by(output, case, key):
    """Say what one entry of an array moves too much, or does not, at a point."""
    array = case.point.cotangent if key == COTANGENT else case.point.arguments[key]
    at = tuple(size // 2 for size in array.shape)
    moved = array.copy()
    moved[at] += 1e-3
    runs = (
        output.stage.again(case.point, key, moved),
        output.probes.right(case.point.with_array(key, moved)),
    )
    if any(output.name not in run.outputs for run in runs):
        return ""
    mine, meant = (
        np.abs(numbers(run.outputs[output.name]) - before) > 1e-9 * np.abs(before).max()
        for run, before in zip(runs, (case.own, case.right), strict=True)
    )
    entry = f"{key}[{', '.join(map(str, at))}]"
    if meant.any() and not mine.any():
        part = part_ignored(output, case, key, array) or entry
        return f"{output.name} does not depend on {part}, but should."
    for axis in range(case.own.ndim):
        rest = tuple(i for i in range(case.own.ndim) if i != axis)
        hit, expected = (np.flatnonzero(a.any(axis=rest)) for a in (mine, meant))
        if len(hit) == len(expected) or not len(expected):
            continue
        along, size = axis_named(case.point, case.own, axis), case.own.shape[axis]
        more = "more" if len(hit) > len(expected) else "less"
        return (
            f"{output.name} depends on {more} of {key} than it should along {along}: changing "
            f"{entry} changes it {indices(hit, size)}, but should change it "
            f"{indices(expected, size)}."
        )
    return ""


def part_ignored(output, case, key, array):
    """Name the indices of an axis at which an array changes nothing, if there are any."""
    for axis, size in enumerate(array.shape):
        still = []
        for index in range(size):
            moved = array.copy()
            part = np.moveaxis(moved, axis, 0)[index : index + 1]
            part += 1e-3 * np.arange(1, part.size + 1).reshape(part.shape)
            found = output.stage.again(case.point, key, moved).outputs.get(output.name)
            if found is not None and close(numbers(found), case.own):
                still.append(index)
        if 0 < len(still) < size:
            which = f"{'index' if len(still) == 1 else 'indices'} {listed(map(str, still))}"
            return f"{key} at {which} of {axis_named(case.point, array, axis)}"
    return ""


def axis_named(point, array, axis):
    """Name an axis by its number, and by its letter if there is one."""
    letter = [n for n, size in point.sizes.items() if size == array.shape[axis]]
    return f"axis {axis}" + (f" ({letter[0]})" if len(letter) == 1 else "")


def indices(hit, size):
    if len(hit) == size:
        return "at every index"
    return f"only at {'index' if len(hit) == 1 else 'indices'} {listed(map(str, hit))}"


def by_support(output):
    """Say where an output is wrong, if it is so at every generic point, but for numbers."""
    said = [support(output, case) for case in output.cases]
    alike = {re.sub(r"\d+", "", text) for text in said}
    return said[0] if len(alike) == 1 else ""


def support(output, case):
    name, (point, own, right, *_) = output.name, case
    wrong = ~(np.abs(own - right) <= TOLERANCE * np.abs(right).max())
    hits = []
    for axis in range(own.ndim):
        others = tuple(i for i in range(own.ndim) if i != axis)
        hit = np.flatnonzero(wrong.any(axis=others))
        if 0 < len(hit) < own.shape[axis]:
            hits.append((len(hit) / own.shape[axis], axis, list(map(int, hit))))
    diagonal = own.ndim > 1 and diagonal_of(wrong)
    if diagonal:
        (below,) = diagonal
        place = "the diagonal"
        if below:
            side = "below" if below > 0 else "above"
            place = f"the diagonal {abs(below)} {side} the main one"
        return f"{name} is wrong only on {place}, and right elsewhere."
    if hits:
        _, axis, hit = min(hits)
        if output.exercise.in_place and axis == 0 and hit[0] > 0:
            return f"{name} is right after the first step, and wrong after the others."
        size = own.shape[axis]
        which = "only at the last index" if hit == [size - 1] else indices(hit, size)
        return f"{name} is wrong {which} of {axis_named(point, own, axis)}, and right elsewhere."
    open_ = (right == 0) & (own != 0)
    if open_.any() and (open_.sum() > 1):
        return f"{name} is not 0 in {int(open_.sum())} entries that should be 0."
    counted = (own != 0) | (right != 0)
    if 0 < wrong.sum() <= counted.sum() / 2:
        return (
            f"{name} is wrong in {int(wrong.sum())} of {int(counted.sum())} entries that are "
            "not 0, and right in the others."
        )
    return ""


def diagonal_of(wrong):
    """Return how far below the middle the one diagonal lies on which all is; () without one."""
    *_, rows, columns = np.nonzero(wrong)
    distances = np.unique(rows - columns)
    return tuple(distances) if len(distances) == 1 and len(np.unique(rows)) > 1 else ()
