"""One wrong output, without the catalogue: what it is instead of what it should be."""

import inspect
import re
from itertools import combinations, permutations

import numpy as np

from transformer_core import ops
from transformer_practice.engine.exercise import OpExercise, fresh
from transformer_practice.engine.explain import arguments, places, products, ratios
from transformer_practice.engine.explain.catalogue import drops_otherwise
from transformer_practice.engine.explain.stage import FEW, Case, listed, numbers
from transformer_practice.engine.points import Draws
from transformer_practice.engine.runs import EXPECTED, TOLERANCE, close, floors_of

ONLY_HERE = "is wrong only here"
FEWEST = 100  # below it, whole numbers agree by chance
NAMELESS = "a coefficient that depends on the sizes"


class Output:
    """A wrong output of a pass, at every point where it is there.

    ``cases`` are those at which it is told what is wrong: the generic points, or where it is right
    there, the others at which it is wrong. Sentences begin with its name.
    """

    def __init__(self, probes: arguments.Probes, name: str):
        self.probes, self.exercise, self.stage = probes, probes.exercise, probes.stage
        self.name, stage = name, probes.stage
        floor = floors_of(stage.right[0], only={name})[name]
        self.all = [
            Case(point, run.outputs[name], right.outputs[name], right.outputs, floor)
            for point, run, right in zip(stage.points, stage.own, stage.right, strict=True)
            if not run.failure and name in run.outputs and name in right.outputs
        ]
        self.form = by_form(self) if self.all else ""
        self.all = [c._replace(own=numbers(c.own), right=numbers(c.right)) for c in self.all]
        self.wrong = [] if self.form else [case for case in self.all if case.is_wrong]
        generic = [case for case in self.wrong if case.point.name.startswith("generic")]
        self.everywhere = bool(self.wrong) and self.wrong[0] is self.all[0]
        self.cases = generic if self.everywhere and generic else self.wrong
        self.few = len(stage.wrong) <= FEW
        self.generic = [point for point in stage.points if point.name.startswith("generic")]
        self.sizes = self.sizes_at(self.cases)

    def sizes_at(self, cases):
        """Return the numbers by which people multiply at some points."""
        parameters = inspect.signature(self.exercise.forward).parameters
        defaults = {n: p.default for n, p in parameters.items() if type(p.default) in (int, float)}
        cotangent = "" if self.stage.name == "forward" else arguments.cotangent_of(self.exercise)
        return ratios.sizes_of([case.point for case in cases], self.generic, defaults, cotangent)

    def constants(self):
        """Return what the layer or the optimiser has, and what is left of it to 1, or more."""
        found = {
            knob.name: float(np.ravel(knob.value)[0])
            for knob in arguments.knobs(self.exercise, self.cases[0].point)
            if knob.name not in self.cases[0].point.arguments
            and (type(knob.value) is float or isinstance(knob.value, np.ndarray))
            and np.size(knob.value) == 1
        }
        for name, value in list(found.items()):
            found |= {f"(1 - {name})": 1 - value, f"(1 + {name})": 1 + value}
        return {name: np.full(len(self.cases), value) for name, value in found.items()}

    @property
    def has_another_shape(self) -> bool:
        """Tell whether nothing more is known than that its shape is wrong."""
        return self.form.endswith(").")

    @property
    def is_of_small_numbers(self) -> bool:
        """Tell whether all it has are small whole numbers, which may agree by chance."""
        own = np.concatenate([np.zeros(0), *(case.own.ravel() for case in self.all)])
        own = own[np.isfinite(own)]
        return not (own % 1).any() and np.abs(own).max(initial=0) < FEWEST

    @property
    def tells_much(self) -> bool:
        """Tell whether its numbers are finite, and cannot be what they are by chance."""
        return not self.is_of_small_numbers and all(np.isfinite(c.own).all() for c in self.all)

    @property
    def is_of_truths(self) -> bool:
        return any(case.others[self.name].dtype == bool for case in self.all)

    def explained(self) -> str:
        """Say what is wrong, if it is seen."""
        return self.first_of(
            by_nan,
            all(not run.failure for run in self.stage.own) and by_another_draw,
            by_truth,
            by_zero,
            by_sign,
            self.few and arguments.by_substitution,
            self.few and by_exchange,
            by_another,
            by_root,
            by_ratio,
            by_difference,
            by_known_terms,
            by_change,
            by_permutation,
            by_argument,
            self.few and products.by_products,
            by_terms_of_rows,
            self.few and products.by_zeros,
            self.few and arguments.by_value,
            self.few and arguments.by_multiple,
        )

    def described(self) -> str:
        """Say where it is wrong, or what it does not depend on."""
        text = self.first_of(
            by_terms,
            self.few and self.everywhere and places.by_reach,
            by_lone_factors,
            by_rows,
            self.few and self.everywhere and places.by_support,
        )
        return text or self.only_here()

    def first_of(self, *mechanisms):
        if self.form or not self.cases:
            return self.form or ""
        found = (mechanism(self) for mechanism in mechanisms if mechanism)
        text = next(filter(None, found), "")
        where = self.only_here()
        return f"{where}\nThere, {text}" if where and text else text

    def only_here(self):
        """Tell at which points alone it is wrong."""
        if self.everywhere or not self.wrong:
            return ""
        return f"{self.name} {ONLY_HERE}: {'; '.join(case.point.name for case in self.wrong)}."


def by_form(output):
    """Find a wrong shape or dtype."""
    name = output.name
    for case in output.all:
        if case.own.shape != case.right.shape:
            return by_shape(name, case)
    numbers_wrong = any(case.is_wrong for case in output.all if case.own.dtype == case.right.dtype)
    for case in output.all:
        own, right = case.own.dtype, case.right.dtype
        if right.kind == "b" != own.kind:
            return f"{name} holds numbers of type {own}, expected booleans, True and False."
        if own.kind == right.kind == "f" and own != right and not numbers_wrong:
            return f"{name} is of type {own}, expected {right}."
    return ""


def by_shape(name, case):
    point, own, right, others, _ = case
    text = f"{name} has the shape {own.shape}, expected {right.shape}."
    if not point.name.startswith("generic"):
        text = f'{text[:-1]}, at the point "{point.name}".'
    for other, array in others.items():
        if other != name and close(own, array):
            return f"{text} It is what {other} should be: are they swapped?"
    if own.shape == right.shape[::-1] and close(own.T, right):
        return f"{text} Transposed, its numbers are right."
    if right.size == own.size:
        reshaped = own.reshape(right.shape)
        if close(reshaped, right):
            return f"{text} Its numbers are right in another shape."
        if own.dtype == right.dtype == bool and np.array_equal(~reshaped, right):
            return f"{text} It is True where it should be False, and the other way round."
    for axis in range(own.ndim):
        if close(own.sum(axis=axis), right):
            return f"{text} Summed over axis {axis}, its numbers are right: that sum is missing."
    return text


def by_nan(output):
    """Find entries that are no numbers, or infinite, and should be numbers."""
    own, right = output.cases[0].own, output.cases[0].right
    for said, why, hit in (
        (
            "NaN",
            "Is there a 0/0, an inf/inf after an overflow, or the root of a negative number?",
            np.isnan(own),
        ),
        ("infinite", "Is a number divided by 0, or too large for exp?", np.isinf(own)),
    ):
        hit = hit & np.isfinite(right)
        if hit.any():
            where = "" if hit.all() else f" in {int(hit.sum())} of {hit.size} entries"
            return f"{output.name} is {said}{where}. {why}"
    return ""


def by_another_draw(output):
    """Find what differs from the right output by the random numbers alone."""
    point, own, right, *_ = output.cases[0]
    draws = [key for key, value in point.arguments.items() if isinstance(value, Draws)]
    both = (own != 0) & (right != 0)
    if draws and drops_otherwise(own, right) and close(own[both], right[both]):
        return (
            f"{output.name} is right where it is not 0, but different entries are dropped: "
            f"{draws[0]} is asked for different numbers, for another shape or dtype, or more than "
            "once."
        )
    return ""


def by_zero(output):
    if any(case.own.any() for case in output.cases):
        return ""
    if output.cases[0].own.size == 1:
        below = all(abs(case.right) < 1 for case in output.cases)
        return f"{output.name} is 0." + below * " Does a // round it down where a / belongs?"
    changed = " Is it changed in place? An = makes a new array and leaves the old one unchanged."
    return f"{output.name} is 0 everywhere." + output.exercise.in_place * changed


def by_sign(output):
    factors = factors_of(output)
    if None in factors or not np.allclose(factors, -1):
        return ""
    return f"{output.name} has the wrong sign, but is otherwise right."


def by_exchange(output):
    """Find another output that stands in the place of this one."""
    for other in output.all[0].others:
        same_there = [
            case.point.name
            for case in output.wrong
            if other in case.others
            and case.own.size > 1
            and close(case.own, numbers(case.others[other]))
        ]
        if other == output.name or not same_there:
            continue
        if same_there[0].startswith("generic"):
            return f"{output.name} is what {other} should be: are they swapped?"
        return (
            f'{output.name} is what {other} should be at the point "{same_there[0]}": are they '
            "computed in the same way?"
        )
    return ""


def by_another(output):
    """Find another operation of the package that gives this output at every point."""
    exercise = output.exercise
    if not isinstance(exercise, OpExercise):
        return ""
    for name in vars(ops):
        found = (of_another(name, exercise, case.point) for case in output.all)
        if all(
            output.name in each and close(case.own, each[output.name], case.floor)
            for case, each in zip(output.all, found, strict=True)
        ):
            return f"{output.name} is what `{name}` gives."
    return ""


def of_another(name, exercise, point):
    """Return what another operation comes to, under the names of an exercise's outputs."""
    backward = getattr(ops, f"{name}_backward", None)
    if not backward:
        return {}
    try:
        with np.errstate(all="ignore"):
            y, cache = getattr(ops, name)(*exercise.arguments(point))
            gradients = backward(fresh(point.cotangent), cache)
    except EXPECTED:
        return {}
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    return {"y": y} | dict(zip((f"d{n}" for n in exercise.inputs), gradients, strict=False))


def by_truth(output):
    """Find truth values that are all inverted."""
    if not output.is_of_truths:
        return ""
    if all(close(1 - case.own, case.right) for case in output.all):
        return f"{output.name} is True where it should be False, and the other way round."
    lone = output.all[0].own.size == 1
    for truth in (False, True):
        if all((case.own == truth).all() for case in output.all):
            where = "at every point" if lone else "everywhere"
            return f"{output.name} is {truth} {where}, even where it should be {not truth}."
        if lone and all(case.own == truth for case in output.wrong):
            return f"{output.name} is {truth} where it should be {not truth}."
    return ""


def by_root(output):
    """Find what is the square of the right output, or its root."""
    if all(close(case.own, case.right**2) for case in output.cases):
        return f"{output.name} is the square of what it should be: is a root missing?"
    if all(close(case.own**2, case.right) for case in output.cases):
        return f"{output.name} is the square root of what it should be."
    return ""


def by_ratio(output):
    """Find a factor that makes the output right, and its name."""
    name, factors = output.name, factors_of(output)
    if None in factors or 0 in factors:
        return ""
    several = len({point_key(case.point) for case in output.cases}) > 1
    constant = np.allclose(factors, factors[0], rtol=ratios.SAME, atol=0)
    lone = max(case.own.size for case in output.cases) == 1
    names = names_of(output, factors)
    if lone and not several:  # a simple name, or it is there by chance
        names = [name for name in names if re.fullmatch(r"(1/)?\w+", name)]
    if not names and (not constant or lone and not several):
        return ""
    if np.abs(np.array(factors) - 1).max() < 1e-3:
        return (
            f"{name} is right to {-np.log10(np.abs(np.array(factors) - 1).max()):.0f} digits: "
            "is a small number added, or a constant rounded?"
        )
    plain = f"{factors[0]:.4g}"
    number = " or ".join(names) or plain
    said = {"2": "twice", "1/2": "half of"}.get(number, f"{number} times")
    vary = any(np.ptp(values) > 0 for values in output.sizes.values())
    always = [ratios.factor(case.own, case.right) or factors[0] for case in output.wrong]
    always = np.allclose(always, factors[0], rtol=ratios.SAME, atol=0)
    everywhere = ", at all sizes" if always and vary else ""
    return f"{name} is {said} what it should be{everywhere}.{by_mean_or_sum(output, number)}"


def by_mean_or_sum(output, factor):
    """Say what a factor comes from that is a product of the sizes of axes, or 1 over it."""
    product = factor.removeprefix("1/").strip("()")
    if not {*product.split(" * ")} <= output.generic[0].sizes.keys():
        return ""
    inverse = factor.startswith("1/")
    one, other = ("mean", "sum") if inverse else ("sum", "mean")
    return f" A {one} in place of a {other} over {product.replace(' *', ',')} does that."


def names_of(output, factors):
    """Name a factor that is known at the cases of an output, so that it holds at others, too."""
    names = ratios.names_of(factors, output.sizes | output.constants())
    shown = [case.point.name for case in output.cases]
    others = [case for case in output.all if case.point.name not in shown]
    others = [(case, c) for case in others if (c := ratios.factor(case.own, case.right))]
    all_factors = [*factors, *(c for _, c in others)]
    if np.allclose(factors, factors[0], rtol=ratios.SAME, atol=0):
        sizes = output.sizes_at([*output.cases, *(case for case, _ in others)])
        same = np.allclose(all_factors, factors[0], rtol=ratios.SAME, atol=0)
        return names if same else ratios.names_of(all_factors, sizes) or names
    holds = dict.fromkeys(names, 0)
    unknown: set[str] = set()
    for case, c in others:
        sizes = output.sizes_at([*output.cases, case])
        unknown |= output.sizes.keys() - sizes.keys()
        for name in ratios.names_of([*factors, c], sizes):
            holds[name] = holds.get(name, 0) + 1
    most = max(holds.values(), default=0)
    if others and not most:
        return [name for name in names if any(each in name for each in unknown)]
    return [name for name, number in holds.items() if number == most]


def point_key(point):
    return tuple(point.sizes.items()) or tuple(map(str, point.arguments.values()))


def factors_of(output):
    return [ratios.factor(case.own, case.right) for case in output.cases]


def by_lone_factors(output):
    """Say by which factors an output is wrong that have no name."""
    factors = factors_of(output)
    if None in factors or max(case.own.size for case in output.cases) == 1:
        return ""
    said = "; ".join(
        f"{c:.4g}" + at_sizes(case.point) for c, case in zip(factors, output.cases, strict=True)
    )
    return (
        f"{output.name} is a multiple of what it should be, by a different factor each time: "
        f"{said}."
    )


def at_sizes(point):
    return " at " * bool(point.sizes) + ", ".join(f"{n} = {v:g}" for n, v in point.sizes.items())


def by_difference(output):
    """Find what is missing in a number, or too much."""
    if max(case.own.size for case in output.cases) > 1:
        gaps = np.concatenate([(case.own - case.right).ravel() for case in output.cases])
        same = np.isfinite(gaps).all() and np.ptp(gaps) <= TOLERANCE * np.abs(gaps).max()
        return f"{output.name} is {gaps[0]:.6g} more than it should be, everywhere." * bool(same)
    if len(output.cases) < 2:
        return ""
    gaps = [float(case.own.item() - case.right.item()) for case in output.cases]
    if not np.isfinite(gaps).all():
        return ""
    if len(set(gaps)) == 1 and gaps[0] % 1 == 0:
        return f"{output.name} is {abs(gaps[0]):g} too {'large' if gaps[0] > 0 else 'small'}."
    gaps = [float(case.own.item() - case.right.item()) for case in output.all]
    names = ratios.difference(gaps, output.sizes_at(output.all))
    if not names:
        return ""
    gap = next(g for g in gaps if g)
    return f"{output.name} is {' or '.join(names)} too {'large' if gap > 0 else 'small'}."


def by_rows(output):
    """Find what differs from the right output by a factor for each row."""
    rows = [factors_of_rows(case.own, case.right) for case in output.cases]
    if any(found is None for found in rows):
        gaps = [case.own - case.right for case in output.cases]
        if all(gap.ndim > 1 and gap.shape[-1] > 1 and same_in_rows(gap) for gap in gaps):
            return (
                f"{output.name} is right except for one number per row, which is added to the "
                "whole row or missing from it."
            )
        return ""
    return (
        f"{output.name} has the right direction in every row, but the wrong length: a factor "
        "that depends on the row is missing or wrong."
    )


def same_in_rows(array):
    return bool(np.isfinite(array).all() and close(array, np.roll(array, 1, axis=-1)))


def factors_of_rows(own, right):
    if right.ndim < 2 or right.shape[-1] < 2 or not np.isfinite(own).all():
        return None
    own, right = (a.reshape(-1, a.shape[-1]) for a in (own, right))
    found = [
        (ratios.factor(o, r) or None) if np.abs(r).max() > 0 else 0.0 if not o.any() else None
        for o, r in zip(own, right, strict=True)
    ]
    return None if None in found else found


def terms_at(output):
    """Return the derivation's terms at each point, if they are the same ones everywhere."""
    terms_of = output.exercise.terms.get(output.name)
    if not terms_of or not all(np.isfinite(case.own).all() for case in output.cases):
        return []
    terms = [terms_of(case.point) for case in output.cases]
    return terms if all(each.keys() == terms[0].keys() for each in terms) else []


def by_known_terms(output):
    """Find coefficients of the derivation's terms that have a name, or are the same everywhere."""
    text = by_terms(output)
    return "" if NAMELESS in text else text


def by_terms(output):
    """Find the coefficients of the derivation's terms by least squares."""
    terms = terms_at(output)
    whole = [
        coefficients([term.ravel() for term in each.values()], case.own.ravel())
        for each, case in zip(terms, output.cases, strict=False)
    ]
    if not whole or any(found is None or np.allclose(found, found[0]) for found in whole):
        return ""
    total = f"{output.name} is a sum of the right terms with wrong coefficients.\n"
    if all(np.allclose(found, whole[0]) for found in whole):
        parts = (f"{c + 0:.3g} * {n}" for c, n in zip(np.round(whole[0], 9), terms[0], strict=True))
        total = f"{output.name} = {' + '.join(parts)}, to rounding.\n"
    return total + " ".join(
        said_of(label, list(at), output.sizes | output.constants())
        for label, at in zip(terms[0], zip(*whole, strict=True), strict=True)
        if not np.allclose(at, 1, rtol=1e-6)
    )


def coefficients(columns, own):
    """Return the coefficients by which some arrays add up to another; None if they do not."""
    matrix = np.stack(columns, axis=1)
    if len(matrix) <= len(columns):
        return None
    found, _, rank, _ = np.linalg.lstsq(matrix, own, rcond=None)
    fits = np.abs(matrix @ found - own).max() <= 1e-7 * np.abs(own).max()
    return found if fits and rank == len(columns) else None


def by_terms_of_rows(output):
    """Find terms that have another coefficient in each row."""
    for_rows = []
    terms = terms_at(output)
    for each, case in zip(terms, output.cases, strict=False):
        width = case.own.shape[-1]
        rows = [np.broadcast_to(t, case.own.shape).reshape(-1, width) for t in each.values()]
        for mine, *columns in zip(case.own.reshape(-1, width), *rows, strict=True):
            for_rows.append(coefficients(columns, mine))
    if not for_rows or any(found is None for found in for_rows):
        return ""
    columns = dict(zip(terms[0], zip(*for_rows, strict=True), strict=True))
    missing = [label for label, at in columns.items() if np.allclose(at, 0, atol=1e-6)]
    wrong = [
        label
        for label, at in columns.items()
        if label not in missing and not np.allclose(at, 1, rtol=1e-6)
    ]
    text = f"{output.name} " + (f"lacks {listed(missing)}" if missing else "has the right terms")
    if not wrong:
        return f"{text}."
    return (
        f"{text}, {'and' if missing else 'but'} {listed(wrong)} "
        f"{'has' if len(wrong) == 1 else 'have'} a different factor in every row: a number that "
        "depends on the row is missing or wrong."
    )


def said_of(label, at, sizes):
    start = label[0].upper() + label[1:]
    if np.allclose(at, 0, atol=1e-6):
        return f"{start} is missing: its coefficient is 0 and should be 1."
    if np.allclose(at, 2, rtol=1e-6):
        return f"{start} is counted twice: its coefficient is 2 and should be 1."
    if np.allclose(at, -1, rtol=1e-6):
        return f"{start} has the wrong sign: its coefficient is -1 and should be 1."
    names = ratios.names_of(at, sizes)
    if names:
        return f"{start} has the coefficient {' or '.join(names)}; it should be 1."
    if np.allclose(at, at[0], rtol=1e-6):
        return f"{start} has the coefficient {at[0]:.3g}; it should be 1."
    return f"{start} has {NAMELESS}; it should be 1."


def by_change(output):
    """Find a factor by which a parameter changes too much in the first step."""
    name = output.name
    cases = [c for c in output.cases if name in c.point.arguments.get("parameters", {})]
    if not output.exercise.in_place or not cases:
        return ""
    before = [case.point.arguments["parameters"][name] for case in cases]
    factors = [
        ratios.factor(case.own[0] - b, case.right[0] - b)
        for case, b in zip(cases, before, strict=True)
    ]
    if None in factors or np.allclose(factors, 1) or not np.allclose(factors, factors[0]):
        return ""
    if np.allclose(factors, 0, atol=TOLERANCE):
        if any(np.ptp(case.own, axis=0).any() for case in cases):
            return f"{name} does not move in the first step."
        return (
            f"{name} does not move. Is it changed in place? An = makes a new array and leaves the "
            "old one unchanged."
        )
    if np.isclose(factors[0], -1):
        return f"{name} takes its first step in the wrong direction: uphill."
    names = ratios.constant_names(factors[0], output.constants())
    times = " or ".join(names) or f"{factors[0]:.4g}"
    return f"{name} takes its first step in the right direction, {times} times as far as it should."


def by_argument(output):
    """Find an argument that is returned as it is."""
    for key, value in output.cases[0].point.arguments.items():
        if not isinstance(value, float | np.ndarray):
            continue
        given = [np.asarray(case.point.arguments.get(key, np.nan)) for case in output.cases]
        if all(
            array.dtype.kind == "f" and array.size and close(case.own, array)
            for case, array in zip(output.cases, given, strict=True)
        ):
            return f"{output.name} is {key} itself."
    return ""


def step_of(case, axis):
    """Return in which steps an axis is to be read so that the output is right, or 0."""
    size = case.own.shape[axis]
    for step in range(2, size):
        if size % step == 0:
            order = np.arange(size).reshape(-1, step).T.ravel()
            if close(np.take(case.own, order, axis), case.right):
                return step
    return 0


def filled_otherwise(array, axes):
    """Fill two axes with the numbers that they hold, in the other order."""
    last = np.moveaxis(array, axes, (-2, -1))
    return np.moveaxis(last.swapaxes(-1, -2).reshape(last.shape), (-2, -1), axes)


def by_permutation(output):
    """Find an order of the axes, or along one axis, in which the output is right."""
    name, cases = output.name, output.cases
    axes_of_all = range(min(case.own.ndim for case in output.all))
    for axes in permutations(range(cases[0].own.ndim)):
        if axes != tuple(sorted(axes)) and all(
            close(c.own.transpose(axes), c.right) for c in cases
        ):
            return f"{name} is right when its axes are taken in the order {axes}: it is transposed."
    changes = {
        "in reverse order": np.flip,
        "one place later": lambda a, axis: np.roll(a, -1, axis),
        "one place earlier": lambda a, axis: np.roll(a, 1, axis),
    }
    for axis in axes_of_all:
        for said, change in changes.items():
            if all(close(change(c.own, axis), c.right) for c in cases):
                return f"{name} is right when axis {axis} is read {said}."
        steps = [step_of(case, axis) for case in cases]
        names = 0 not in steps and ratios.names_of(steps, output.sizes)
        if names:
            return f"{name} is right when axis {axis} is read in steps of {' or '.join(names)}."
    for axes in combinations(axes_of_all, 2):
        if all(close(filled_otherwise(c.own, axes), c.right) for c in output.all):
            one, other = axes
            return (
                f"{name} is right when its entries fill axes {one} and {other} in contiguous runs "
                f"along axis {other}, not interleaved."
            )
    scrambled = [
        not close(np.sort(case.own, axis=None), np.sort(case.right, axis=None)) for case in cases
    ]
    return "" if any(scrambled) else f"{name} has the right numbers in the wrong places."
