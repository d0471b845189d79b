"""A doctor for other people's implementations: what differs first between two recordings, and why.

Each recorded value is computed again from the values before it in the same recording. The form in
which this gives our value is looked for first; if it does not give theirs, the doctor looks for the
forms that do. So a difference is explained by numbers, and a later one is seen although
everything after the first differs.
"""

import re
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_shape
from transformer_core.foundation.files import to_safetensors
from transformer_core.interop.hypotheses import Missing, Plan, cast_orders, steps_of
from transformer_core.interop.recording import parsed, read_recording, record_folder
from transformer_core.ops.rotary import pairs_to_halves

# What an option may raise where it does not fit the values that are there.
FAILURES = Missing, ValueError, IndexError, ModuleNotFoundError
MOST_FORMS = 1500  # tried for one value, on every machine the same
LOW = 1e-4  # a rounding unit above it is one of half precision
# How the options begin that are measured in a value, and are not there without it.
MEASURED = "base", "causal window", "window", "label smoothing", "the parameters of"
Choice = dict[str, tuple[str, Any]]  # the text and the value of an option, by its axis


class Recording(NamedTuple):
    """The values of one file, and the rounding unit of each."""

    values: dict[str, np.ndarray]
    units: dict[str, float]


class Finding(NamedTuple):
    """One difference: where it is, what explains it, and what was tried."""

    name: str
    step: str
    causes: tuple[str, ...]
    plain_error: float
    error: float
    tried: str = ""


class Values:
    """The values of a recording, and what follows from them in chosen forms.

    Parameters
    ----------
    recording : Recording
    shared : dict
        What the other recording has, taken where this one lacks it and no step computes it.
    steps : dict of str to Step
    choices : dict
        The form of every kind of step, by its name without the number of the layer; which
        parameters it takes, by its whole name.
    """

    def __init__(self, recording, shared, steps, choices):
        self.arrays, self.units = recording
        self.other, self.steps, self.choices = shared, steps, choices
        self.made, self.touched = {}, set()

    def __getitem__(self, name: str) -> np.ndarray:
        found = self.maybe(name)
        if found is None and name in self.steps:
            if name in self.made and self.made[name] is None:
                raise Missing(name)  # it needs itself
            if name not in self.made:
                self.made[name] = None
                try:
                    self.made[name] = self.predict(name)
                finally:
                    if self.made[name] is None:
                        del self.made[name]
            found = self.made[name]
        if found is None:
            raise Missing(name)
        return found

    def maybe(self, name: str) -> np.ndarray | None:
        """Return what is recorded: here, or there if nothing could compute it here."""
        self.touched.add(name)
        if name in self.arrays:
            return self.arrays[name]
        return None if name in self.steps else self.other.get(name)

    def axes(self, name: str, target: np.ndarray | None = None) -> dict:
        axes = self.steps[name].axes
        return axes(self, target) if callable(axes) else axes

    def axes_of(self, name: str, target: np.ndarray | None = None) -> dict:
        """Return the axes of a step, or none if they cannot be told."""
        try:
            return self.axes(name, target)
        except FAILURES:
            return {}

    def choice(self, name: str, target: np.ndarray | None = None) -> Choice:
        """Return the form of a step as it is chosen now; what is not chosen is the first."""
        chosen = self.choices.get(kind(name), {}) | self.choices.get(name, {})
        found = {}
        for axis, options in self.axes(name, target).items():
            text, value = chosen.get(axis, (None, None))
            measured = text and text.startswith(MEASURED)
            if text not in options and not measured:
                text = next(iter(options))
            found[axis] = text, options.get(text, value)
        return found

    def chosen(self, name: str) -> dict:
        """Return the value of the option of each axis."""
        return {axis: value for axis, (_, value) in self.choice(name).items()}

    def predict(self, name: str) -> np.ndarray:
        """Compute a value from those before it, in the chosen forms."""
        return self.steps[name].compute(self, *self.chosen(name).values())

    def with_changes(self, names: tuple[str, ...], changed: Choice) -> "Values":
        """Return the values in another form of some steps."""
        choices = dict(self.choices)
        for name in names:
            keep(choices, name, changed)
        recording = Recording(self.arrays, self.units)
        return Values(recording, self.other, self.steps, choices)

    def shapes(self, names: str) -> Iterator[tuple]:
        """Go through the shapes of what is recorded in either file under a kind of name."""
        for arrays in (self.arrays, self.other):
            for name, array in arrays.items():
                if re.fullmatch(names, name):
                    yield array.shape

    def of_shape(self, shape: tuple) -> list[str]:
        """Return the names of the layers and norms whose weight has a shape."""
        weights = {**self.other, **self.arrays}
        found = [
            re.fullmatch(r"parameter\.(.*(?<!_embedding))\.weight", name)
            for name, array in weights.items()
            if array.shape == shape
        ]
        return sorted(one[1] for one in found if one)

    def owner(self, name: str) -> str:
        """Return the layer or norm whose parameters one takes."""
        return self.choices.get(name, {}).get("owner", ("", name))[1]

    def heads(self, name: str) -> int:
        """Return the number of heads that a projection is cut into."""
        query = "query" in name
        last = "query\\w*|scores|weights" if query else "key\\w*|value"
        shape = next(self.shapes(rf"layers\.\d+\.attention\.({last})"), None)
        leaf = self.maybe("heads" if query else "key_heads")
        if shape is None and leaf is None and not query:
            return self.heads("query")
        if shape is None and leaf is None:
            raise Missing("heads")
        return int(shape[1] if shape else leaf)

    def width(self) -> int:
        names = r"parameter\.token_embedding\.weight|embedding|.*\.(output|residual)"
        if shape := next(self.shapes(names), None):
            return shape[-1]
        raise Missing("embedding")

    def past(self, name: str) -> int:
        """Return how many keys there are more than queries."""
        shape = next(self.shapes(r"layers\.\d+\.attention\.(scores|weights)"), (0, 0))
        return shape[-1] - shape[-2]


def choose(side: Values, steps: tuple[str, ...], changed: Choice) -> None:
    """Keep a form: from now on, the steps of these kinds are computed in it."""
    for step in steps:
        keep(side.choices, step, side.choice(step) | changed)


def keep(choices: dict, name: str, changed: Choice) -> None:
    for axis, option in changed.items():
        at = name if axis in ("owner", "matrix") else kind(name)
        choices[at] = choices.get(at, {}) | {axis: option}


def kind(name: str) -> str:
    """Return a name without the number of its layer."""
    return re.sub(r"layers\.\d+", "layers.*", name)


def compare(ours: Path | str, theirs: Path | str) -> tuple[list[Finding], str]:
    """Compare two recordings; return what differs, and a report of it.

    Parameters
    ----------
    ours, theirs : path
        Two ``.safetensors`` files, with names of ``transformer_core.interop.recording``. The first
        is taken to be right. It may be a folder of weights, too, as for :func:`load`: its model is
        run on what the other was given, in float64 if that has been computed so.

    Returns
    -------
    findings : list of Finding
        Forward, then backward; none if the two agree to rounding.
    report : str

    Raises
    ------
    ValueError
        If a file is not whole, holds NaN, or the two have no names, or other shapes, in common.
    """
    other = Recording(*read_recording(theirs))
    if Path(ours).is_dir():
        wide = any(0 < unit < 1e-10 for unit in other.units.values())
        values = record_folder(ours, "float64" if wide else None, other.values)
        one = Recording(*parsed(ours, to_safetensors(values)))
    else:
        one = Recording(*read_recording(ours))
    with np.errstate(all="ignore"):
        return Doctor(one, other).report()


class Doctor:
    """Compares two recordings."""

    def __init__(self, ours: Recording, theirs: Recording):
        self.recordings = ours, theirs
        names = ours.values.keys() & theirs.values.keys()
        every = ours.values | theirs.values
        by_plan = [steps_of(plan_of({*every}, pre)) for pre in (True, False)]
        known = by_plan[0].keys() | by_plan[1].keys()
        for side, recording in zip(("ours", "theirs"), self.recordings, strict=True):
            if not recording.values.keys() & known:
                raise ValueError(
                    f"{side}: expected a recording, with values such as 'embedding' and "
                    f"'logits', got {sample(recording.values)}; a checkpoint is run and "
                    "recorded by: python -m transformer_core.interop record FOLDER OUT"
                )
        if not names & known:
            raise ValueError(
                f"theirs: expected values that ours has too, such as {sample(ours.values)}, "
                f"got {sample(theirs.values)}"
            )
        self.unknown = sorted(n for n in every.keys() - known if not is_leaf(n))
        for name in names - set(self.unknown):
            self.check_shapes(name)
        unit = max(max(recording.units.values()) for recording in self.recordings)
        roundings = 16 if unit > LOW else 5000  # what many steps make of one
        self.rounding = roundings * unit
        self.mask = None
        if (mask := every.get("attention_mask")) is not None:
            check_shape("attention_mask", mask, "B", "T")
            self.mask = mask.astype(bool)
        self.scales = [largest_gradient(one.values) for one in self.recordings]
        self.placements = self.placed(by_plan)
        self.sides = [
            Values(one, other.values, by_plan[place], {})
            for one, other, place in zip(
                self.recordings, self.recordings[::-1], self.placements, strict=True
            )
        ]
        steps = [name for name in self.sides[0].steps if name in ours.values]
        self.known = {name: self.learn(name) for name in steps}
        self.order = [name for name in self.known if name in names]
        self.leaves = sorted(name for name in names if is_leaf(name))

    def placed(self, by_plan):
        """Return 0 where the norms of a side stand before the branches, and 1 where after."""
        places: list[int] = []
        usual = int(any("embedding_sum" in one.values for one in self.recordings))
        for i, (own, other) in enumerate((self.recordings, self.recordings[::-1])):
            sides = [Values(own, other.values, steps, {}) for steps in by_plan]
            found = self.norms_explained(i, sides[usual])
            if not all(found):
                others = self.norms_explained(i, sides[1 - usual])
                usual = usual if sum(found) >= sum(others) else 1 - usual
            places.append(usual)
        return places

    def norms_explained(self, i, side):
        names = [f"layers.0.{part}.norm" for part in ("attention", "feed_forward")]
        names = [name for name in names if name in side.arrays]
        return [self.fits(i, side, name, 3) is not None for name in names]

    def fits(self, i, side, name, most):
        """Return the changes of form that explain a value, none if it needs none, or None."""
        error, tolerance = self.plain(side, name, i)
        if error is None:
            return None
        explained = error <= tolerance
        if explained and side.units[name] < LOW:
            return (), {}
        # In half precision other forms may fit as well: one that fits much better is preferred.
        most = 1 if explained else most
        found, least, _ = self.search(i, side, name, most, tolerance)
        if explained and not least < error / 2:
            return (), {}
        return found[0] if found else None

    def learn(self, name):
        """Find the form in which ours computes a value; tell whether there is one."""
        side = self.sides[0]
        fit = self.fits(0, side, name, 3)
        if fit is None:
            return False
        choose(side, *fit)
        for step in fit[0]:
            self.sides[1].choices[kind(step)] = side.choices[kind(step)]
        return True

    def check_shapes(self, name):
        one, other = (recording.values[name] for recording in self.recordings)
        if one.size == other.size == 1:
            for recording in self.recordings:
                recording.values[name] = recording.values[name].reshape(())
        elif one.shape != other.shape:
            hint = ""
            if "parameter" in name and one.shape == other.shape[::-1]:
                hint = "; a weight is (in, out), the transpose of a torch.nn.Linear's"
            raise ValueError(
                f"theirs: {name}: expected shape {one.shape} as ours, got {other.shape}{hint}"
            )

    def error(self, name, a, i):
        """Return the largest difference between a value of a file and another, relative to them."""
        b = self.recordings[i].values[name]
        if a.shape != b.shape:
            return np.inf
        a, b = (self.counted(name, x) for x in (a, b))
        if name.endswith("scores") and "gradient" not in name:
            there = b > -1e4  # what is lower is masked
            a, b = a[there], b[there]
        largest = max(np.abs(a).max(initial=0), np.abs(b).max(initial=0))
        floor = self.scales[i] * 1e-3 if name.startswith("gradient.parameter") else 0
        difference = np.abs(a - b).max(initial=0)
        found = difference / max(largest, floor) if difference else 0.0
        return float(found) if np.isfinite(found) else np.inf

    def counted(self, name, a):
        """Return the entries of an array that belong to tokens, and not to padding."""
        mask = self.mask
        if mask is None or a.ndim < 3 or "parameter" in name:
            return a
        a = a.swapaxes(1, 2) if a.ndim == 4 else a
        if a.shape[:2] != mask.shape:
            return a
        a = a[mask]
        if name.endswith("scores"):
            a = a * mask[np.nonzero(mask)[0]][:, np.newaxis]
        return a

    def tolerance(self, side, name, missing):
        """Return the error that rounding explains: in one step, or in several."""
        unit = max(side.units.get(read, 0) for read in (name, *side.touched))
        steps = 2 if unit > LOW else 32
        turned = any("_rotated" in one for one in (name, *missing, *side.touched))
        if turned and unit < LOW:  # the rounding of an angle grows with the position
            steps += max(side.arrays[name].shape[-2:-1], default=0)
        return steps * unit * (1 + len(missing))

    def differ(self, name):
        """Return how far two values are apart, and whether that is more than rounding."""
        error = self.error(name, self.recordings[0].values[name], 1)
        return error, error > self.rounding

    def search(self, i, side, name, most, tolerance):
        """Return the changes of form, as few as can be, that explain a value.

        Each is a pair: the steps that change, which are the value's own or some whose values are
        not recorded, and what changes in them. Then the least error, and how many were tried.
        """
        tried, least = 0, np.inf
        for deviations in range(1, most + 1):
            found = []
            for steps in self.candidates(side, name):
                for changed in self.changes(side, steps[0], name, deviations):
                    if tried >= MOST_FORMS:
                        break
                    try:
                        varied = side.with_changes(steps, changed)
                        error = self.error(name, np.asarray(varied.predict(name)), i)
                    except FAILURES:
                        error = np.inf
                    tried, least = tried + 1, min(least, error)
                    found.append((error, steps, changed))
            enough = min(tolerance, max(8 * least, tolerance / 8))
            best = sorted(found, key=lambda one: one[0])
            if best and best[0][0] <= enough:
                fit = [one[1:] for one in best if one[0] <= enough]
                return fit, least, tried
        return [], least, tried

    @staticmethod
    def candidates(side, name):
        """Return the steps in which a difference may be: alone, or together with their like."""
        alone = [(name,), *((one,) for one in side.made if one != name)]
        alike: dict[tuple, list] = {}
        for one in side.made:
            alike.setdefault(tuple(side.axes_of(one)), []).append(one)
        several = [steps for steps in alike.values() if len({*map(kind, steps)}) > 1]
        return alone + [tuple(steps) for steps in several]

    @staticmethod
    def changes(side, step, name, deviations):
        """Go through the changes of a step's form in so many axes."""
        target = side.arrays[name] if step == name else None
        axes = side.axes_of(step, target)
        chosen = side.choice(step, target) if axes else {}
        for axis_names in combinations(axes, deviations):
            others = [
                [one for one in axes[axis].items() if one[0] != chosen[axis][0]]
                for axis in axis_names
            ]
            for options in product(*others):
                yield dict(zip(axis_names, options, strict=True))

    def plain(self, side, name, i):
        """Return the error of a value under the forms chosen now, and the tolerance for it."""
        side.made, side.touched = {}, set()
        try:
            error = self.error(name, np.asarray(side.predict(name)), i)
        except FAILURES:
            error = None
        missing = tuple(one for one in side.made if one in side.steps)
        return error, self.tolerance(side, name, missing)

    def examine(self, name: str) -> Finding | str:
        """Examine one step: return what theirs does otherwise, or "alike", or "unknown"."""
        theirs = self.sides[1]
        if not self.known[name]:
            return "unknown"
        error, tolerance = self.plain(self.sides[0], name, 0)
        if error is not None and error > tolerance:
            self.learn(name)  # ours has another form in this layer, such as a window
        error, tolerance = self.plain(theirs, name, 1)
        if error is not None and error <= tolerance:
            return self.casts(name) or "alike"
        found, least, tried = self.search(1, theirs, name, 2, tolerance)
        if not found:
            steps = [name, *theirs.made]
            axes = ", ".join(
                sorted({a for step in steps for a in theirs.axes_of(step)})
            )
            excluded = f"{tried} other forms: {axes}" if tried else ""
            return Finding(name, name, (), error or np.inf, least, excluded)
        for change in found:
            if self.explains_ours(name, *change):
                for side in self.sides:
                    choose(side, *change)
                return "alike"
        causes = tuple(dict.fromkeys(self.cause(name, *change) for change in found))
        if len({steps for steps, _ in found}) == 1:
            choose(theirs, *found[0])
        plain = np.inf if error is None else error
        return Finding(name, found[0][0][0], causes, plain, least)

    def explains_ours(self, name, steps, changed):
        """Tell whether ours is explained as well in a form that was found for theirs.

        Where ours records a step that changes, the form has to give that step's value too.
        """
        ours = self.sides[0]
        recorded = [one for one in steps if one != name and one in ours.arrays]
        names = [name, *recorded]
        return all(self.gives_ours(one, ours, steps, changed) for one in names)

    def gives_ours(self, name, ours, steps, changed):
        error, tolerance = self.plain(ours, name, 0)
        enough = min(tolerance, max(8 * (error or 0), tolerance / 8))
        try:
            value = ours.with_changes(steps, changed).predict(name)
        except FAILURES:
            return False
        return self.error(name, np.asarray(value), 0) <= enough

    def cause(self, name, steps, changed):
        """Put a change of form into words."""
        theirs, own = self.sides[1], steps[0] == name
        before = theirs.choice(steps[0], theirs.arrays[name] if own else None)
        texts = [
            f"{text} instead of {before[a][0]}" for a, (text, _) in changed.items()
        ]
        where = "" if own else f" (in {' and '.join(steps[:3])}, not recorded)"
        return "; ".join(texts) + where

    def casts(self, name: str) -> Finding | None:
        """Look at the order of casts, where both are in half precision and differ bit for bit."""
        one, other = (recording.values[name] for recording in self.recordings)
        unit, its = (recording.units[name] for recording in self.recordings)
        is_norm = name.endswith("norm") and "gradient" not in name
        if not is_norm or unit < LOW or unit != its or (one == other).all():
            return None
        format = "bfloat16" if unit > 2e-3 else "float16"
        fits = []
        for side in self.sides:
            source = side.chosen(name)["input"]
            try:
                forms = cast_orders(side, name, source, format).items()
            except Missing:
                return None
            value = side.arrays[name]
            fits.append([text for text, form in forms if np.mean(form == value) > 0.97])
        if not all(fits) or set(fits[0]) & set(fits[1]):
            return None
        causes = tuple(f"{theirs} instead of {fits[0][0]}" for theirs in fits[1])
        return Finding(name, name, causes, self.differ(name)[0], 0.0)

    def leaf(self, name: str) -> Finding | None:
        """Compare what no step computes: whole numbers, and parameters."""
        one, other = (recording.values[name] for recording in self.recordings)
        error, differs = self.differ(name)
        if not differs and not (one.dtype.kind != "f" and error):
            return None
        return Finding(name, name, tuple(self.relations(name, one, other)), error, 0.0)

    def relations(self, name, one, other):
        """Yield what a value is of another, if it is simple."""
        unit = 50 * max(recording.units[name] for recording in self.recordings)

        def same(a):
            largest = unit * np.abs(other).max()
            return a.shape == other.shape and np.abs(a - other).max() <= largest

        if one.ndim == 2 and same(one.T):
            yield "the transpose of ours"
        square = (one * one).sum()
        factor = (one * other).sum() / square if one.dtype.kind == "f" and square else 1
        if not other.any():
            yield "zero everywhere"
        elif one.dtype.kind == "f" and abs(factor - 1) > unit and same(factor * one):
            yield f"ours times {factor:.6g}"
        if re.search(r"(query|key)\.(weight|bias)$", name):
            heads = self.sides[0].heads(name)
            cut = one.reshape(*one.shape[:-1], heads, -1)
            if cut.shape[-1] % 2 == 0:
                order = pairs_to_halves(cut.shape[-1])
                orders = {
                    "pairs to halves": order,
                    "halves to pairs": np.argsort(order),
                }
                for text, by in orders.items():
                    if same(cut[..., by].reshape(one.shape)):
                        yield f"ours with the entries of each head reordered from {text}"

    def report(self) -> tuple[list[Finding], str]:
        """Examine all that both files have, and put it into words."""
        ours, theirs = self.recordings
        lines = [
            f"{len(self.order)} values and {len(self.leaves)} inputs and parameters are in both "
            f"files, of {len(ours.values)} in ours and {len(theirs.values)} in theirs."
        ]
        if self.unknown:
            unknown = ", ".join(self.unknown)
            lines.append(f"Unknown names, which are not read: {unknown}.")
        findings = [found for found in map(self.leaf, self.leaves) if found]
        if len(set(self.placements)) > 1:
            there, here = (PLACES[place] for place in self.placements[::-1])
            name, cause = "layers.0.attention.norm", f"norms {there} instead of {here}"
            findings.append(Finding(name, "", (cause,), np.inf, 0.0))
        if findings:
            lines += ["", "INPUTS, PARAMETERS, PLACE OF THE NORMS"]
            for causes, group in grouped(findings):
                cause = ", ".join(causes) or "different numbers"
                lines.append(f"{listed(group, 4)}: {cause}")
        for title, prefix in (("FORWARD", False), ("BACKWARD", True)):
            order = [n for n in self.order if n.startswith("gradient.") == prefix]
            found, text = self.part(order, bool(findings))
            findings += found
            lines += ["", title, *(text if order else ["nothing that both recorded"])]
        lines += ["", "The two agree to rounding." if not findings else total(findings)]
        return findings, "\n".join(lines)

    def part(self, order, before):
        """Examine the forward or the backward pass: what is found, and the lines for it."""
        findings: list[Finding] = []
        alike, followers, unjudged, last_equal = 0, [], [], None
        for name in order:
            error, differs = self.differ(name)
            found = self.examine(name)
            # What nothing explains may be the rounding of a lengthy computation.
            if isinstance(found, Finding) and not found.causes:
                found = found if found.plain_error > self.rounding else "alike"
            if isinstance(found, Finding) and (found.causes or differs):
                findings.append(found)
            elif differs and found == "alike":
                followers.append(name)
            elif differs:
                if findings or followers or before:
                    unjudged.append(name)
                else:
                    findings.append(Finding(name, name, (), error, np.inf))
            if not findings and not differs:
                last_equal = name
            alike += found == "alike"
        words = self.words(order, findings, alike, followers, unjudged, last_equal)
        return findings, words

    def words(self, order, findings, alike, followers, unjudged, last_equal):
        lines = []
        if not findings:
            again = f"{alike} of {len(order)} were recomputed"
            lines.append(f"no step differs: {again}")
        elif last_equal:
            lines.append(f"equal up to {last_equal}")
        for i, (_, group) in enumerate(grouped(findings)):
            first = group[0]
            lead = "first difference" if i == 0 else "another difference"
            lines.append(f"{lead}: {first.name}")
            if len(first.causes) > 1:
                lines.append("  one of these, which the values cannot tell apart:")
            lines += [f"  {cause}" for cause in first.causes[:6]]
            if len(first.causes) > 6:
                lines.append(f"  and {len(first.causes) - 6} more")
            if first.causes:
                lines.append(
                    f"  with it, recomputing theirs gives a relative error of "
                    f"{first.error:.0e}; without it, {first.plain_error:.0e}"
                )
            else:
                lines += self.unexplained(first, order)
            if group[1:]:
                lines.append(f"  the same in {listed(group[1:], 3)}")
        if followers:
            lines.append(
                f"{len(followers)} values differ only because what they are computed from differs"
            )
        if unjudged:
            lines.append(
                f"{len(unjudged)} values differ and could not be recomputed: "
                + ", ".join(unjudged[:3])
                + (" ..." if unjudged[3:] else "")
            )
        return lines

    def unexplained(self, found, order):
        one, other = (recording.values[found.name] for recording in self.recordings)
        difference, _ = self.differ(found.name)
        lines = [f"  relative difference {difference:.0e}, cause not found"]
        relations = self.relations(found.name, one, other)
        lines += [f"  theirs is {text}" for text in relations]
        if found.tried:
            lines.append(f"  excluded: {found.tried}")
        elif np.isinf(found.error):
            lines.append("  what is recorded is not enough to recompute it")
        steps = list(self.sides[0].steps)
        place = steps.index(found.name)
        seen = set(order)
        between = []
        for name in reversed(steps[:place]):
            if name in seen:
                lines.append(f"  it comes after {name}")
                break
            between.append(name)
        if between:
            names = ", ".join(reversed(between[:8])) + (" ..." if between[8:] else "")
            lines.append(f"  not recorded between them: {names}")
        return lines


PLACES = "before the branches (pre-norm)", "after the branches (post-norm)"
LEAVES = {"ids", "targets", "loss_weights", "attention_mask", "positions"}
LEAVES |= {"segment_ids", "cotangents", "heads", "key_heads", "gradient.loss"}


def is_leaf(name):
    return name in LEAVES or name.startswith("parameter.")


def plan_of(names: set[str], pre: bool) -> Plan:
    """Read from recorded names what a model is made of."""
    text = "\n".join(names)
    last = max(map(int, re.findall(r"layers\.(\d+)", text)), default=-1)
    if last > 999:
        raise ValueError(f"names: expected at most 1000 layers, got layers.{last}")
    ends = "embedding_sum", "parameter.embedding.weight"
    return Plan(
        last + 1,
        pre,
        "feed_forward.gate" in text,
        "final_norm" in text,
        any(name.endswith(ends) for name in names),
        "cotangents" not in names,
    )


def largest_gradient(values):
    """Return the largest entry of the gradients of all parameters: rounding is relative to it."""
    names = [name for name in values if name.startswith("gradient.parameter")]
    return max((float(np.abs(values[name]).max()) for name in names), default=0.0)


def sample(values):
    names = sorted(values)
    return ", ".join(names[:3]) + (" ..." if names[3:] else "") if names else "none"


def grouped(findings):
    """Return findings by their causes; those without a cause by their kind of name."""
    groups: dict[tuple, list[Finding]] = {}
    for found in findings:
        where = "" if found.causes else kind(found.name)
        groups.setdefault((found.causes, where), []).append(found)
    return [(causes, group) for (causes, _), group in groups.items()]


def listed(findings, most):
    names = ", ".join(found.name for found in findings[:most])
    return names + (f" and {len(findings) - most} more" if findings[most:] else "")


def total(findings):
    named = sum(len(found.causes) == 1 for found in findings)
    return f"{len(findings)} differences, {named} of them explained by one cause."
