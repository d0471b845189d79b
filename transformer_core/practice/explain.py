"""Why an answer is wrong: mistakes of the catalogue first, then what needs no catalogue."""

from collections.abc import Sequence
from itertools import combinations, permutations
from math import sqrt
from time import perf_counter
from typing import NamedTuple

import numpy as np

from transformer_core.practice.catalogue import Mutant
from transformer_core.practice.exercise import Exercise, Point
from transformer_core.practice.runs import (
    LEFT,
    TOLERANCE,
    Run,
    Runs,
    alike,
    close,
    run_catalogue,
    run_mistake,
    run_right,
    same,
)

PAIRS_SECONDS = 0.6  # for how long pairs of mistakes are tried


MUSEUM = {  # what is shown in training there
    "layer-norm-scale-term-alone",
    "layer-norm-gamma-outside",
    "softmax-no-coupling",
    "residual-skip-lost",
    "linear-last-sequence-alone",
    "linear-batch-and-time-scrambled",
    "attention-input-without-projections",
    "optimizer-default-for-missing-gradients",
    "embedding-repeats-lost",
    "heads-joined-by-reshape",
    "decoder-target-not-shifted",
    "adam-no-bias-correction",
    "residual-dropout-forgotten",
    "cross-entropy-mean-over-everything",
}


class Explanation(NamedTuple):
    text: str
    mistakes: tuple[str, ...] = ()


class Stage(NamedTuple):
    """One pass of an answer, beside the right one."""

    name: str  # "forward" or "backward"
    own: list[Run]
    right: list[Run]
    wrong: list[str]  # the outputs that are wrong at some point


def explain(
    exercise: Exercise, points: list[Point], stage: Stage
) -> tuple[Explanation, ...]:
    """Explain a pass that is wrong.

    Parameters
    ----------
    exercise : Exercise
    points : list of Point
    stage : Stage

    Returns
    -------
    tuple of Explanation
        Empty if nothing is known that explains it.
    """
    known = (
        by_catalogue(exercise, stage)
        or by_draws(exercise, stage)
        or by_pairs(exercise, points, stage)
    )
    if known:
        return (known,)
    single, rest = by_catalogue_apart(exercise, stage)
    alike: dict[str, list[str]] = {}
    for name in rest:
        text = by_itself(exercise, points, stage, name)
        if text:
            alike.setdefault(text.removeprefix(name), []).append(name)
    apart = [
        Explanation(f"{listed(names)}{': each' * (len(names) > 1)}{text}")
        for text, names in alike.items()
    ]
    return (*single, *apart)


def passes(runs: Runs, stage: Stage) -> list[Run]:
    return runs.forward if stage.name == "forward" else runs.backward


def by_catalogue(exercise, stage):
    """Find the mistakes that come to what the whole pass comes to, at every point."""
    right = run_right(exercise.name)
    found = {
        mistake.name: mistake
        for mistake, runs in run_catalogue(exercise.name)
        if same(passes(runs, stage), stage.own)
        and not same(passes(runs, stage), passes(right, stage))
    }
    return named(stage.wrong, stage, list(found.values())) if found else None


def by_draws(exercise, stage):
    """Find a mistake that draws anew: what it comes to has other entries that are 0."""
    found = [
        mistake
        for mistake, runs in run_catalogue(exercise.name)
        if "default_rng" in "".join(mistake.edits.values())
        and all(map(redrawn, stage.own, stage.right, passes(runs, stage)))
    ]
    own, right = stage.own[0].outputs, stage.right[0].outputs
    if not found or not all(drops_otherwise(own[name], right[name]) for name in own):
        return None
    return named(stage.wrong, stage, found)


def drops_otherwise(own, right):
    """Tell whether some entries are 0 in one array alone, some in the other, and not all."""
    kept, meant = own != 0, right != 0
    return (kept & meant).any() and (kept > meant).any() and (kept < meant).any()


def redrawn(*runs):
    """Tell whether of some runs every two agree where no output is 0."""
    if any(run.failure or run.outputs.keys() != runs[0].outputs.keys() for run in runs):
        return False
    return all(
        one[name].shape == other[name].shape
        and close(
            *(a[name][(one[name] != 0) & (other[name] != 0)] for a in (one, other))
        )
        for one, other in combinations([run.outputs for run in runs], 2)
        for name in one
    )


def by_catalogue_apart(exercise, stage):
    """Explain outputs one by one: each by a mistake that comes to the same in this output."""
    explanations, rest = [], []
    groups: dict[tuple, tuple] = {}
    for name in stage.wrong:
        found = {
            mistake.name: mistake
            for mistake, runs in run_catalogue(exercise.name)
            if differs(passes(runs, stage), stage.right, name)
            and same(passes(runs, stage), stage.own, {name})
        }
        if found:
            outputs, _ = groups.get(tuple(found), ((), ()))
            groups[tuple(found)] = (*outputs, name), list(found.values())
        else:
            rest.append(name)
    explanations = [named(names, stage, found) for names, found in groups.values()]
    return explanations, rest


def differs(runs, right, name):
    """Tell whether an output is there and wrong at some point."""
    there = name.endswith(LEFT) or all(
        name in run.outputs for run in runs if not run.failure
    )
    return there and not same(runs, right, {name})


def named(outputs: Sequence[str], stage: Stage, mistakes: list[Mutant]) -> Explanation:
    what = "It is that"
    if outputs:
        what = f"{listed(outputs)} {'is that' if len(outputs) == 1 else 'are those'}"
    names = tuple(mistake.name for mistake in mistakes)
    if len(mistakes) == 1:
        (mistake,) = mistakes
        text = (
            f'{what} of the mistake "{mistake.name}", to rounding:\n{mistake.mistake}.'
        )
    else:
        text = f"{what} of {len(mistakes)} mistakes that come to the same here:\n"
        text += "\n".join(f'"{m.name}": {m.mistake}' for m in mistakes)
    if any(name in MUSEUM for name in names):
        text += "\nChapter 320_museum shows what it does to a training."
    return Explanation(text, names)


def by_pairs(exercise, points, stage):
    """Find two mistakes that come to it together."""
    if stage.own[0].failure:
        return None
    single = {m.name: m for m, _ in run_catalogue(exercise.name)}.values()
    stop = perf_counter() + PAIRS_SECONDS
    for pair in combinations(single, 2):
        if perf_counter() > stop:
            return None
        try:
            first = passes(run_mistake(exercise, points[:1], *pair), stage)[0]
            if not alike(first, stage.own[0]):
                continue
            together = passes(run_mistake(exercise, points, *pair), stage)
        except ValueError:  # they change the same line
            continue
        if same(together, stage.own):
            text = "Two mistakes at once come to it:\n" + "\n".join(
                f'"{m.name}": {m.mistake}' for m in pair
            )
            return Explanation(text, tuple(m.name for m in pair))
    return None


def by_itself(exercise, points, stage, name):
    """Explain one wrong output without the catalogue: the first of what fits."""
    pairs = [
        (point, numbers(run.outputs[name]), numbers(right.outputs[name]))
        for point, run, right in zip(points, stage.own, stage.right, strict=True)
        if not run.failure and name in run.outputs and name in right.outputs
    ]
    generic = [pair for pair in pairs if pair[0].name.startswith("generic")]
    misshapen = [pair for pair in generic if pair[1].shape != pair[2].shape]
    if misshapen:
        return by_shape(name, *misshapen[0])
    if not generic:
        return None
    others = [
        run.outputs
        for p, run in zip(points, stage.right, strict=True)
        if p in [g[0] for g in generic]
    ]
    return (
        by_special_points(name, pairs)
        or by_exchange(name, generic, others)
        or by_ratio(exercise, name, generic)
        or by_terms(exercise, name, generic)
        or by_permutation(name, generic)
        or by_support(exercise, name, generic)
    )


def numbers(array):
    """Return an array as it is, one of truth values as zeros and ones."""
    return array.astype(float) if array.dtype == bool else array


def by_shape(name, point, own, right):
    text = f"{name} has the shape {own.shape}, expected {right.shape}."
    if own.shape == right.shape[::-1] and close(own.T, right):
        return f"{text} Transposed, its numbers are right."
    for axis in range(own.ndim):
        if close(own.sum(axis=axis), right):
            return f"{text} Summed over axis {axis}, its numbers are right: that sum is missing."
    if right.size == own.size and close(own.reshape(right.shape), right):
        return f"{text} Its numbers are right in another shape."
    return text


def by_exchange(name, generic, others):
    """Find another output that stands in the place of this one."""
    for other in others[0]:
        if other != name and all(
            other in outputs and close(own, outputs[other])
            for (_, own, _), outputs in zip(generic, others, strict=True)
        ):
            return f"{name} is what {other} should be: have they changed places?"
    return None


def by_ratio(exercise, name, generic):
    """Find a factor that makes the output right, and its name."""
    factors = [factor(own, right) for _, own, right in generic]
    if None in factors:
        rows = [factors_of_rows(own, right) for _, own, right in generic]
        if all(r is not None for r in rows):
            return (
                f"{name} has the right direction in every row, and in each another length: a "
                "factor that belongs to the row is missing or wrong."
            )
        return None
    if np.allclose(factors, 0, atol=TOLERANCE):
        zero = f"{name} is 0 everywhere."
        if exercise.in_place:
            zero += " Is it changed in place? `m = ...` makes a new array and leaves m as it was."
        return zero
    if np.allclose(factors, 1):
        return None
    if np.allclose(factors, -1):
        return f"{name} has the wrong sign, and is right otherwise."
    names = [
        label
        for label, values in constants([point.sizes for point, _, _ in generic])
        if np.allclose(values, factors, rtol=1e-6)
    ]
    length = f"{abs(factors[0]):.4g}"
    seen = f"{name} has the right direction and {length} times the right length"
    if factors[0] < 0:
        seen += ", with the wrong sign"
    if names:
        return f"{seen}. At these sizes that is {' or '.join(names)}, and nothing else I know."
    if np.allclose(factors, factors[0]):
        return f"{seen}, at all sizes: a constant factor."
    if (
        max(own.size for _, own, _ in generic) == 1
    ):  # any number is some multiple of another
        return None
    if not generic[0][0].sizes:
        return f"{seen}. The factor is another at other points."
    sizes = "; ".join(
        f"{factor:.4g} at " + ", ".join(f"{n} = {v:g}" for n, v in point.sizes.items())
        for factor, (point, _, _) in zip(factors, generic, strict=True)
    )
    return f"{seen}. The factor depends on the sizes: {sizes}."


def factor(own, right):
    """Return c if own = c * right, to rounding, and None otherwise."""
    if not np.isfinite(own).all():
        return None
    square = float((right * right).sum())
    if square == 0:
        return None
    c = float((own * right).sum()) / square
    return (
        c if np.abs(own - c * right).max() <= TOLERANCE * np.abs(right).max() else None
    )


def factors_of_rows(own, right):
    if right.ndim < 2 or right.shape[-1] < 2 or not np.isfinite(own).all():
        return None
    own, right = (a.reshape(-1, a.shape[-1]) for a in (own, right))
    found = [
        factor(o, r) if np.abs(r).max() > 0 else 0.0
        for o, r in zip(own, right, strict=True)
    ]
    return None if None in found else found


def constants(sizes):
    """Yield numbers with a name, at the sizes of each point: 2, N, 1/K, the root of K."""
    for number in (2, 3, 4):
        yield str(number), [number] * len(sizes)
        yield f"1/{number}", [1 / number] * len(sizes)
    letters = [n for n in sizes[0] if all(n in s for s in sizes)]
    values = {n: [s[n] for s in sizes] for n in letters}
    for one, other in combinations(letters, 2):
        values[f"{one} * {other}"] = [
            a * b for a, b in zip(values[one], values[other], strict=True)
        ]
    for label, at in values.items():
        bracket = f"({label})" if " " in label else label
        yield label, at
        yield f"1/{bracket}", [1 / v for v in at]
        yield f"the square root of {label}", [sqrt(v) for v in at]
        yield f"1/sqrt({label})", [1 / sqrt(v) for v in at]
        yield f"2 {label}", [2 * v for v in at]


def by_terms(exercise, name, generic):
    """Find the coefficients of the derivation's terms by least squares."""
    if name not in exercise.terms:
        return None
    terms = [exercise.terms[name](point) for point, _, _ in generic]
    columns = np.stack(
        [np.concatenate([t[label].ravel() for t in terms]) for label in terms[0]],
        axis=1,
    )
    own = np.concatenate([own.ravel() for _, own, _ in generic])
    if not np.isfinite(own).all():
        return None
    found, _, rank, _ = np.linalg.lstsq(columns, own, rcond=None)
    if (
        rank < columns.shape[1]
        or np.abs(columns @ found - own).max() > 1e-7 * np.abs(own).max()
    ):
        return None
    coefficients = dict(zip(terms[0], found, strict=True))
    total = " + ".join(f"{c:.2f} * {label}" for label, c in coefficients.items())
    said = [
        sentence(label, c) for label, c in coefficients.items() if abs(c - 1) > 1e-6
    ]
    return f"{name} = {total}, to rounding.\n" + " ".join(said)


def sentence(label, coefficient):
    start = label[0].upper() + label[1:]
    if abs(coefficient) < 1e-6:
        return f"{start} is missing: its coefficient is 0, it should be 1."
    if abs(coefficient - 2) < 1e-6:
        return f"{start} counts twice. It should have the coefficient 1."
    if abs(coefficient + 1) < 1e-6:
        return f"{start} has the wrong sign: its coefficient is -1, it should be 1."
    return f"{start} has the coefficient {coefficient:.3g}, it should be 1."


def by_permutation(name, generic):
    """Find an order of the axes, or along one axis, in which the output is right."""
    _, own, right = generic[0]
    for axes in permutations(range(own.ndim)):
        moved = own.transpose(axes)
        if (
            axes != tuple(range(own.ndim))
            and moved.shape == right.shape
            and close(moved, right)
        ):
            return f"{name} is right when its axes are taken in the order {axes}: it is transposed."
    changes = {
        "in reverse order": np.flip,
        "one place further": lambda a, axis: np.roll(a, -1, axis),
        "one place earlier": lambda a, axis: np.roll(a, 1, axis),
    }
    for axis in range(own.ndim):
        for said, change in changes.items():
            if all(close(change(o, axis), r) for _, o, r in generic):
                return f"{name} is right when axis {axis} is read {said}."
    scrambled = [
        (o.shape != r.shape or not close(np.sort(o, axis=None), np.sort(r, axis=None)))
        for _, o, r in generic
    ]
    if not any(scrambled):
        return f"{name} has the right numbers in the wrong places."
    return None


def by_support(exercise, name, generic):
    """Find an axis along which only some indices are wrong, at every generic point."""
    point, own, right = generic[0]
    wrong = ~(np.abs(own - right) <= TOLERANCE * np.abs(right).max())
    for axis in range(own.ndim):
        others = tuple(i for i in range(own.ndim) if i != axis)
        hit = np.flatnonzero(wrong.any(axis=others))
        if 0 < len(hit) < own.shape[axis]:
            if exercise.in_place and axis == 0 and hit[0] > 0:
                return (
                    f"{name} is right after the first step, and wrong after the others."
                )
            letter = [n for n, size in point.sizes.items() if size == own.shape[axis]]
            along = f"axis {axis}" + (f" ({letter[0]})" if len(letter) == 1 else "")
            which = (
                "the last one"
                if list(hit) == [own.shape[axis] - 1]
                else str(list(map(int, hit)))
            )
            return f"{name} is wrong along {along} at {which} only, and right at the others."
    counted = (own != 0) | (right != 0)
    if 0 < wrong.sum() <= counted.sum() / 2:
        return (
            f"{name} is wrong in {int(wrong.sum())} of {int(counted.sum())} entries that are "
            "not 0, and right in the others."
        )
    return None


def by_special_points(name, pairs):
    """Tell at which points alone the output is wrong."""
    wrong = [point.name for point, own, expected in pairs if not close(own, expected)]
    if wrong and not any(point.startswith("generic") for point in wrong):
        return f"{name} is wrong only here: {', '.join(wrong)}."
    return None


def listed(names):
    """Join names as in a sentence."""
    names = list(names)
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
