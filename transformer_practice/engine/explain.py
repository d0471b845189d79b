"""Why an answer is wrong: mistakes of the catalogue first, then what needs no catalogue."""

import inspect
from collections.abc import Callable, Sequence
from itertools import combinations, permutations
from math import sqrt
from time import process_time
from typing import NamedTuple

import numpy as np

from transformer_practice.engine.exercise import Exercise
from transformer_practice.engine.points import COTANGENT, Draws, Point
from transformer_practice.engine.runs import (
    LEFT,
    TOLERANCE,
    Run,
    Runs,
    close,
    passes_agree,
    run_catalogue,
    run_mistake,
    run_point,
    run_right,
    runs_agree,
)
from transformer_practice.mistakes import Mutant

PAIRS_SECONDS = 1.0  # of the processor: for how long pairs of mistakes are tried
ONLY_HERE = "is wrong only here"
FEW = 5  # outputs that are wrong: of more, one mistake is the cause of all, and far from most
PROBES_SECONDS = 1.0  # of the processor: for how long other arguments are tried


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
    again: Callable[[Point, str, np.ndarray], Run]  # the pass, an argument being another array


def explain(exercise: Exercise, points: list[Point], stage: Stage) -> tuple[Explanation, ...]:
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
    found: dict[str, list[str]] = {}
    probes = Probes(exercise, stage)
    for name in rest:
        text = by_itself(exercise, points, stage, name, probes)
        if text:
            found.setdefault(text.removeprefix(f"{name} "), []).append(name)
    apart = [
        Explanation(f"{listed(names)}{': each' * (len(names) > 1)} {text}")
        for text, names in found.items()
    ]
    return (*single, *apart)


def passes(runs: Runs, stage: Stage) -> list[Run]:
    return runs.forward if stage.name == "forward" else runs.backward


def by_catalogue(exercise, stage):
    """Find the mistakes that come to what the whole pass comes to, at every point."""
    right = run_right(exercise)
    found = {
        mistake.name: mistake
        for mistake, runs in run_catalogue(exercise)
        if passes_agree(passes(runs, stage), stage.own)
        and not passes_agree(passes(runs, stage), passes(right, stage))
    }
    return named(stage.wrong, stage, list(found.values())) if found else None


def by_draws(exercise, stage):
    """Find a mistake that draws anew: what it comes to has other entries that are 0."""
    found = [
        mistake
        for mistake, runs in run_catalogue(exercise)
        if "default_rng" in "".join(mistake.edits.values())
        and not passes_agree(passes(runs, stage), stage.right)
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
        and close(*(a[name][(one[name] != 0) & (other[name] != 0)] for a in (one, other)))
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
            for mistake, runs in run_catalogue(exercise)
            if differs(passes(runs, stage), stage.right, name)
            and passes_agree(passes(runs, stage), stage.own, {name})
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
    there = name.endswith(LEFT) or all(name in run.outputs for run in runs if not run.failure)
    return there and not passes_agree(runs, right, {name})


def named(outputs: Sequence[str], stage: Stage, mistakes: list[Mutant]) -> Explanation:
    what = "It is that"
    changed = [name.removesuffix(LEFT) for name in outputs if name.endswith(LEFT)]
    outputs = [name for name in outputs if name and not name.endswith(LEFT)]
    if outputs:
        what = f"{listed(outputs)} {'is that' if len(outputs) == 1 else 'are those'}"
    elif changed:
        what = f"The change of {listed(changed)} is that"
    names = tuple(mistake.name for mistake in mistakes)
    if len(mistakes) == 1:
        (mistake,) = mistakes
        text = f'{what} of the mistake "{mistake.name}", to rounding:'
        if changed and not outputs:
            text = f'To change {listed(changed)} is the mistake "{mistake.name}":'
        text += f"\n{mistake.mistake}."
    else:
        text = f"{what} of {len(mistakes)} mistakes that come to the same here:\n"
        text += "\n".join(f'"{m.name}": {m.mistake}' for m in mistakes)
    if any(name in MUSEUM for name in names):
        text += "\nChapter 320_museum shows what it does to a training."
    return Explanation(text, names)


def by_pairs(exercise, points, stage):
    """Find two mistakes that come to it together."""
    if any(run.failure for run in stage.own):
        return None
    single = {m.name: m for m, _ in run_catalogue(exercise)}.values()
    stop = process_time() + PAIRS_SECONDS
    for pair in combinations(single, 2):
        if process_time() > stop:
            return None
        try:
            first = passes(run_mistake(exercise, points[:1], *pair), stage)[0]
            if not runs_agree(first, stage.own[0]):
                continue
            together = passes(run_mistake(exercise, points, *pair), stage)
        except ValueError:  # they change the same line
            continue
        if passes_agree(together, stage.own):
            text = "These two mistakes together give exactly your numbers:\n" + "\n".join(
                f'"{m.name}": {m.mistake}' for m in pair
            )
            return Explanation(text, tuple(m.name for m in pair))
    return None


def by_itself(exercise, points, stage, name, probes):
    """Explain one wrong output without the catalogue: the first of what fits.

    The text begins with its name.
    """
    pairs = [
        (point, run.outputs[name], right.outputs[name], right.outputs)
        for point, run, right in zip(points, stage.own, stage.right, strict=True)
        if not run.failure and name in run.outputs and name in right.outputs
    ]
    misshapen = [p for p in pairs if p[1].shape != p[2].shape]
    if misshapen:
        return by_shape(name, *misshapen[0])
    for _, own, right, _ in pairs:
        if right.dtype == bool != own.dtype:
            return f"{name} holds numbers of type {own.dtype}, expected booleans, True and False."
        if own.dtype.kind == right.dtype.kind == "f" and own.dtype != right.dtype:
            return f"{name} is of type {own.dtype}, expected {right.dtype}."
    others = [other for *_, other in pairs]
    pairs = [(point, numbers(own), numbers(right)) for point, own, right, _ in pairs]
    generic = [pair for pair in pairs if pair[0].name.startswith("generic")]
    if not generic and stage.own[0].failure:  # it is judged where it runs
        generic = pairs
    if not generic:
        return None
    special = by_special_points(name, pairs)
    wrong = [pair for pair in pairs if not close(pair[1], pair[2])]
    generic = [p for p in wrong if p[0].name.startswith("generic")] or generic
    if special:
        generic = wrong[:1] + [p for p in generic if p[0].name in [w[0].name for w in wrong[1:]]]
    few = len(stage.wrong) <= FEW
    found = (
        by_nan(name, generic)
        or by_another_draw(name, generic)
        or (few and by_substitution(name, generic, probes))
        or (few and by_exchange(name, pairs, others))
        or by_truth(name, generic, others)
        or by_root(name, generic)
        or by_ratio(exercise, name, generic)
        or by_terms(exercise, name, generic)
        or by_change(exercise, name, generic)
        or by_permutation(name, generic)
        or (few and not special and by_reach(name, generic, probes))
        or (few and by_multiple(name, generic, probes))
        or (few and not special and by_support(exercise, name, generic))
    )
    if special and found:
        return f"{special}\nThere, {found}"
    return special or found


class Probes:
    """Runs of both passes at points that are changed in one argument."""

    def __init__(self, exercise: Exercise, stage: Stage):
        self.exercise, self.stage = exercise, stage
        self.stop = process_time() + PROBES_SECONDS
        self.known: dict[str, list[tuple[str, Run]]] = {}

    def right(self, point: Point) -> Run:
        """Run the package's own pass."""
        return run_point(self.exercise, point, self.stage.name)

    def substitutes(self, point: Point) -> list[tuple[str, Run]]:
        """Say what may stand in the place of an argument, and what it comes to."""
        if point.name not in self.known:
            changed = list(substitutes(self.exercise, point, self.stage.name))
            self.known[point.name] = [
                (said, self.right(other)) for said, other in changed if process_time() < self.stop
            ]
        return self.known[point.name]


def substitutes(exercise, point, stage):
    """Yield points at which one argument is another, and what is said of it."""
    for name, value in point.arguments.items():
        if isinstance(value, dict) and not exercise.in_place:
            yield (f"{name} were empty", point._replace(arguments=point.arguments | {name: {}}))
        elif isinstance(value, np.ndarray | bool | int | float):
            for said, new in others_of(name, value, default_of(exercise, name)):
                yield said, point._replace(arguments=point.arguments | {name: new})
        elif name in ("self", "build"):
            for said, build in changed_builds(value, point):
                yield said, point._replace(arguments=point.arguments | {name: build})
    arrays = [n for n, a in point.arguments.items() if isinstance(a, np.ndarray)]
    for one, other in combinations(arrays, 2):
        a, b = point.arguments[one], point.arguments[other]
        if a.shape == b.shape and b.dtype == bool:
            yield (
                f"{one} were multiplied by {other}",
                point._replace(arguments=point.arguments | {one: a * b, other: None}),
            )
        elif a.shape == b.shape:
            yield (
                f"{one} and {other} had changed places",
                point._replace(arguments=point.arguments | {one: b, other: a}),
            )
    if stage == "backward":
        ones = np.ones_like(point.cotangent)
        name = exercise.functions[1].signature.split(", ")[exercise.of_a_layer]
        yield f"{name} were 1", point._replace(cotangent=ones)


def others_of(name, value, default=None):
    """Yield what may stand in the place of a value by mistake."""
    if isinstance(value, bool):
        yield f"{name} were {not value}", not value
    elif isinstance(value, np.ndarray) and value.dtype == bool:
        yield f"{name} were None", None
        yield f"{name} were inverted", ~value
    elif isinstance(value, int) or isinstance(value, np.ndarray) and value.dtype.kind == "i":
        yield f"{name} were 1 larger", value + 1
        yield f"{name} were 1 smaller", value - 1
    else:
        yield f"{name} were 1", 1.0 + 0 * value
        yield f"{name} were 0", 0.0 * value
    if isinstance(default, int | float) and default is not value:
        yield f"{name} were {default}, its default", default


def default_of(exercise, name):
    """Return the default of an argument in the signature; None without one."""
    signature = inspect.signature(exercise.forward)
    about = signature.parameters.get(name)
    return None if about is None or about.default is about.empty else about.default


def changed_builds(build, point):
    """Yield builders of the same layer or optimiser with one number or array changed."""
    sample = build(point.arguments.get("parameters", np.float64))

    def changed(change):
        def built(argument):
            thing = build(argument)
            change(thing)
            return thing

        return built

    arrays = {} if "parameters" in point.arguments else sample.parameters()
    for name in arrays:
        for number in (0.0, 1.0):
            yield (
                f"{name} were {number:g}",
                changed(lambda layer, n=name, c=number: layer.parameters()[n].fill(c)),
            )
    defaults = inspect.signature(type(sample).__init__).parameters
    numbers = {n: v for n, v in vars(sample).items() if type(v) in (bool, float)}
    for name, value in numbers.items():
        default = defaults[name].default if name in defaults else None
        for said, new in others_of(name, value, default):
            yield said, changed(lambda thing, n=name, v=new: setattr(thing, n, v))
    for (one, a), (other, b) in combinations(numbers.items(), 2):
        if type(a) is type(b) is float:
            yield (
                f"{one} and {other} had changed places",
                changed(lambda thing, new={one: b, other: a}: vars(thing).update(new)),
            )


def by_substitution(name, generic, probes):
    """Find an argument in whose place another value would make the output right."""
    (point, own, _), *rest = generic[:2]
    if not own.any():
        return None
    for said, run in probes.substitutes(point):
        if name in run.outputs and close(own, numbers(run.outputs[name])):
            confirmed = (
                dict(probes.substitutes(other)).get(said, Run({})).outputs.get(name)
                for other, _, _ in rest
            )
            if all(
                found is not None and close(mine, numbers(found))
                for found, (_, mine, _) in zip(confirmed, rest, strict=True)
            ):
                left_out = said.endswith((" were 0", " were 1", " were None", " were empty"))
                question = ": is that left out?" if left_out else "."
                return f"{name} is what it should be if {said}{question}"
    return None


def by_multiple(name, generic, probes):
    """Find a size by which an argument is multiplied where it should not be."""
    arrays = [
        key
        for key, value in generic[0][0].arguments.items()
        if isinstance(value, np.ndarray) and value.dtype.kind == "f"
    ]
    table = list(constants([point.sizes for point, _, _ in generic]))
    for key in arrays:
        for label, values in table:
            if process_time() > probes.stop:
                return None
            for (point, own, _), factor in zip(generic, values, strict=True):
                scaled = point.arguments | {key: factor * point.arguments[key]}
                run = probes.right(point._replace(arguments=scaled))
                if name not in run.outputs or not close(own, numbers(run.outputs[name])):
                    break
            else:
                return f"{name} is what it should be if {key} were {label} times as large."
    return None


def by_reach(name, generic, probes):
    """Find an entry that moves more of the output than it should, or less."""
    point, own, right = generic[0]
    arrays = {n: a for n, a in point.arguments.items() if isinstance(a, np.ndarray)}
    places = {n: a for n, a in arrays.items() if a.dtype.kind == "f" and a.size}
    if probes.stage.name == "backward" and np.ndim(point.cotangent):
        places[COTANGENT] = point.cotangent
    for key, array in places.items():
        if process_time() > probes.stop or not own.ndim:
            return None
        at = tuple(size // 2 for size in array.shape)
        moved = array.copy()
        moved[at] += 1e-3
        runs = probes.stage.again(point, key, moved), probes.right(point.with_array(key, moved))
        if any(name not in run.outputs for run in runs):
            continue
        mine, meant = (
            np.abs(numbers(run.outputs[name]) - before) > 1e-9 * np.abs(before).max()
            for run, before in zip(runs, (own, right), strict=True)
        )
        entry = f"{key}[{', '.join(map(str, at))}]"
        if meant.any() and not mine.any():
            return f"{name} does not depend on {entry}, and should."
        for axis in range(own.ndim):
            rest = tuple(i for i in range(own.ndim) if i != axis)
            hit, expected = (np.flatnonzero(a.any(axis=rest)) for a in (mine, meant))
            if len(hit) == len(expected) or not len(expected):
                continue
            along = axis_named(point, own, axis)
            why = "Is something taken for a constant, or an axis left out?"
            if any(a.dtype == bool for a in arrays.values()):
                why = "Does the mask hide what it should?"
            elif len(hit) > len(expected):
                why = "Does a sum, a mean or a maximum run along a wrong axis?"
            return (
                f"{name} changes at {indices(hit, own.shape[axis])} of {along} when {entry} does, "
                f"and should at {indices(expected, own.shape[axis])}. {why}"
            )
    return None


def axis_named(point, array, axis):
    """Name an axis by its number, and by its letter if there is one."""
    letter = [n for n, size in point.sizes.items() if size == array.shape[axis]]
    return f"axis {axis}" + (f" ({letter[0]})" if len(letter) == 1 else "")


def indices(hit, size):
    if len(hit) == size:
        return "every index"
    return f"{'index' if len(hit) == 1 else 'indices'} {listed(map(str, hit))} alone"


def numbers(array):
    """Return an array as it is, one of truth values as zeros and ones."""
    return array.astype(float) if array.dtype == bool else array


def by_shape(name, point, own, right, others):
    text = f"{name} has the shape {own.shape}, expected {right.shape}."
    if not point.name.startswith("generic"):
        text = f'{text[:-1]}, at the point "{point.name}".'
    for other, array in others.items():
        if other != name and close(own, array):
            return f"{text} It is what {other} should be: have they changed places?"
    if own.shape == right.shape[::-1] and close(own.T, right):
        return f"{text} Transposed, its numbers are right."
    if right.size == own.size and close(own.reshape(right.shape), right):
        return f"{text} Its numbers are right in another shape."
    for axis in range(own.ndim):
        if close(own.sum(axis=axis), right):
            return f"{text} Summed over axis {axis}, its numbers are right: that sum is missing."
    return text


def by_exchange(name, pairs, others):
    """Find another output that stands in the place of this one."""
    for other in others[0]:
        same_there = [
            point.name
            for (point, own, right), outputs in zip(pairs, others, strict=True)
            if other in outputs and close(own, numbers(outputs[other])) and not close(own, right)
        ]
        if other == name or not same_there:
            continue
        if same_there[0].startswith("generic"):
            return f"{name} is what {other} should be: have they changed places?"
        return (
            f'{name} is what {other} should be at the point "{same_there[0]}": are they made in '
            "the same way?"
        )
    return None


def by_nan(name, generic):
    """Find entries that are no numbers, or infinite, and should be numbers."""
    _, own, right = generic[0]
    for said, why, hit in (
        ("NaN", "Is there a 0/0, or the root of a negative number?", np.isnan(own)),
        ("infinite", "Is a number divided by 0, or too large for exp?", np.isinf(own)),
    ):
        hit = hit & np.isfinite(right)
        if hit.any():
            where = "" if hit.all() else f" in {int(hit.sum())} of {hit.size} entries"
            return f"{name} is {said}{where}. {why}"
    return None


def by_another_draw(name, generic):
    """Find what differs from the right output by the random numbers alone."""
    point, own, right = generic[0]
    draws = [key for key, value in point.arguments.items() if isinstance(value, Draws)]
    both = (own != 0) & (right != 0)
    if draws and drops_otherwise(own, right) and close(own[both], right[both]):
        return (
            f"{name} is right where it is not 0, and other entries are dropped: {draws[0]} is "
            "asked for other numbers, for another shape or dtype, or more than once."
        )
    return None


def by_truth(name, generic, others):
    """Find truth values that are all inverted."""
    booleans = others[0][name].dtype == bool
    if booleans and all(close(1 - own, right) for _, own, right in generic):
        return f"{name} is True where it should be False, and the other way round."
    return None


def by_root(name, generic):
    """Find what is the square of the right output, or its root."""
    if all(close(own, right**2) for _, own, right in generic):
        return f"{name} is the square of what it should be: is a root missing?"
    if all(close(own**2, right) for _, own, right in generic):
        return f"{name} is the square root of what it should be."
    return None


def by_change(exercise, name, generic):
    """Find a factor by which a parameter changes too much in the first step."""
    start = generic[0][0].arguments.get("parameters", {})
    if not exercise.in_place or name not in start:
        return None
    before = [
        point.arguments["parameters"][name]
        for point, _, _ in generic
        if name in point.arguments["parameters"]
    ]
    changes = zip(before, generic, strict=False)
    factors = [factor(own[0] - b, right[0] - b) for b, (_, own, right) in changes]
    if None in factors or np.allclose(factors, 1) or not np.allclose(factors, factors[0]):
        return None
    if np.isclose(factors[0], -1):
        return f"{name} takes its first step in the wrong direction: uphill."
    return (
        f"{name} takes its first step in the right direction, {factors[0]:.4g} times as far as it "
        "should."
    )


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
        if max(own.size for _, own, _ in generic) == 1:
            return f"{name} is 0. Does a // round it down where a / belongs?"
        zero = f"{name} is 0 everywhere."
        if exercise.in_place:
            zero += " Is it changed in place? An = makes a new array and leaves the old one."
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
    if max(own.size for _, own, _ in generic) == 1:  # any number is some multiple of another
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
    return c if np.abs(own - c * right).max() <= TOLERANCE * np.abs(right).max() else None


def factors_of_rows(own, right):
    if right.ndim < 2 or right.shape[-1] < 2 or not np.isfinite(own).all():
        return None
    own, right = (a.reshape(-1, a.shape[-1]) for a in (own, right))
    found = [factor(o, r) if np.abs(r).max() > 0 else 0.0 for o, r in zip(own, right, strict=True)]
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
    if len(letters) > 2:
        values[" * ".join(letters)] = [float(np.prod([s[n] for n in letters])) for s in sizes]
    for label, at in values.items():
        bracket = f"({label})" if " " in label else label
        yield label, at
        yield f"1/{bracket}", [1 / v for v in at]
        yield f"the square root of {label}", [sqrt(v) for v in at]
        yield f"1/sqrt({label})", [1 / sqrt(v) for v in at]
        yield f"2 {label}", [2 * v for v in at]


def by_terms(exercise, name, generic):
    """Find the coefficients of the derivation's terms by least squares."""
    if name not in exercise.terms or not all(np.isfinite(own).all() for _, own, _ in generic):
        return None
    terms = [exercise.terms[name](point) for point, _, _ in generic]
    labels = list(terms[0])
    whole = [
        coefficients([t[label].ravel() for label in labels], own.ravel())
        for t, (_, own, _) in zip(terms, generic, strict=True)
    ]
    if any(found is None for found in whole):
        return by_terms_of_rows(name, labels, terms, generic)
    total = ""
    if all(np.allclose(found, whole[0]) for found in whole):
        summands = (f"{c:.2f} * {label}" for c, label in zip(whole[0], labels, strict=True))
        total = f"{name} = {' + '.join(summands)}, to rounding.\n"
    table = list(constants([point.sizes for point, _, _ in generic]))
    said = [
        sentence(label, list(at), table)
        for label, at in zip(labels, zip(*whole, strict=True), strict=True)
        if not np.allclose(at, 1, rtol=1e-6)
    ]
    return (total or f"{name} is a sum of the right terms with wrong coefficients.\n") + " ".join(
        said
    )


def coefficients(columns, own):
    """Return the coefficients by which some arrays add up to another; None if they do not."""
    matrix = np.stack(columns, axis=1)
    if len(matrix) <= len(columns):
        return None
    found, _, rank, _ = np.linalg.lstsq(matrix, own, rcond=None)
    fits = np.abs(matrix @ found - own).max() <= 1e-7 * np.abs(own).max()
    return found if fits and rank == len(columns) else None


def by_terms_of_rows(name, labels, terms, generic):
    """Find terms that have another coefficient in each row."""
    for_rows = []
    for t, (_, own, _) in zip(terms, generic, strict=True):
        rows = [np.broadcast_to(t[n], own.shape).reshape(-1, own.shape[-1]) for n in labels]
        for mine, *columns in zip(own.reshape(-1, own.shape[-1]), *rows, strict=True):
            for_rows.append(coefficients(columns, mine))
    if not for_rows or any(found is None for found in for_rows):
        return None
    wrong = [
        label
        for label, at in zip(labels, zip(*for_rows, strict=True), strict=True)
        if not np.allclose(at, 1, rtol=1e-6)
    ]
    return (
        f"{name} has the right terms, but in every row {listed(wrong)} "
        f"{'has' if len(wrong) == 1 else 'have'} a factor of its own: a number that belongs to "
        "the row is missing or wrong."
    )


def sentence(label, at, table):
    start = label[0].upper() + label[1:]
    if np.allclose(at, 0, atol=1e-6):
        return f"{start} is missing: its coefficient is 0, it should be 1."
    if np.allclose(at, 2, rtol=1e-6):
        return f"{start} counts twice. It should have the coefficient 1."
    if np.allclose(at, -1, rtol=1e-6):
        return f"{start} has the wrong sign: its coefficient is -1, it should be 1."
    names = [label for label, values in table if np.allclose(values, at, rtol=1e-6)]
    if names:
        return f"{start} has the coefficient {' or '.join(names)}, it should be 1."
    if np.allclose(at, at[0], rtol=1e-6):
        return f"{start} has the coefficient {at[0]:.3g}, it should be 1."
    return f"{start} has a coefficient that depends on the sizes, it should be 1."


def by_permutation(name, generic):
    """Find an order of the axes, or along one axis, in which the output is right."""
    _, own, right = generic[0]
    for axes in permutations(range(own.ndim)):
        moved = own.transpose(axes)
        if axes != tuple(range(own.ndim)) and moved.shape == right.shape and close(moved, right):
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
            place = f"the diagonal that lies {abs(below)} {side} the middle one"
        return f"{name} is wrong on {place} only, and right elsewhere."
    if hits:
        _, axis, hit = min(hits)
        if exercise.in_place and axis == 0 and hit[0] > 0:
            return f"{name} is right after the first step, and wrong after the others."
        which = "the last one" if hit == [own.shape[axis] - 1] else str(hit)
        along = axis_named(point, own, axis)
        return f"{name} is wrong along {along} at {which} only, and right at the others."
    open_ = (right == 0) & (own != 0)
    if open_.any() and (open_.sum() > 1):
        return f"{name} is not 0 in {int(open_.sum())} entries that should be 0."
    counted = (own != 0) | (right != 0)
    if 0 < wrong.sum() <= counted.sum() / 2:
        return (
            f"{name} is wrong in {int(wrong.sum())} of {int(counted.sum())} entries that are "
            "not 0, and right in the others."
        )
    return None


def diagonal_of(wrong):
    """Return how far below the middle the one diagonal lies on which all is; () without one."""
    *_, rows, columns = np.nonzero(wrong)
    distances = np.unique(rows - columns)
    return tuple(distances) if len(distances) == 1 and len(np.unique(rows)) > 1 else ()


def by_special_points(name, pairs):
    """Tell at which points alone the output is wrong."""
    right = [point.name for point, own, expected in pairs if close(own, expected)]
    if right[:1] != [pairs[0][0].name] or len(right) == len(pairs):
        return None
    wrong = [point.name for point, _, _ in pairs if point.name not in right]
    return f"{name} {ONLY_HERE}: {'; '.join(wrong)}."


def listed(names):
    """Join names as in a sentence; by semicolons where there are commas in them."""
    names = list(names)
    if any("," in name for name in names):
        return "; ".join(names)
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
