"""The examiner: it runs a reader's functions, and says which known mistake is in them."""

from collections.abc import Callable
from functools import partial
from warnings import catch_warnings

import numpy as np

from transformer_core.gradient_check import gradient_error
from transformer_practice.engine.answer import Answer
from transformer_practice.engine.exercise import Exercise, titles_of
from transformer_practice.engine.explain import (
    ONLY_HERE,
    Stage,
    asked_at,
    both_passes_with,
    by_numbers,
    by_values,
    explain,
    listed,
)
from transformer_practice.engine.pages import place_of
from transformer_practice.engine.report import Report
from transformer_practice.engine.running import Failed, NotWritten
from transformer_practice.engine.runs import LEFT, SELF, TOLERANCE, Runs, at_points, run_right
from transformer_practice.exercises import find_exercise

MANY = 5  # outputs that a sentence names at most
REMEMBERS = "What it needs from its own forward pass must be in the cache, and must stay there."
KEPT = (
    "What the backward pass needs must be in the cache, not in self: another forward pass "
    "may come in between."
)
WITNESS_TOLERANCE = 1e-5  # of central differences, at points of size 1


def examine(
    exercise: str | Exercise, forward: Callable | None = None, backward: Callable | None = None
) -> Report:
    """Examine a reader's functions.

    The forward pass is compared with the package's, each output of the backward pass on its own
    with the derivative of the reader's own forward pass, at generic and at special points. What
    is wrong is explained: by a mistake of the catalogue, by two of them, or without it.

    Parameters
    ----------
    exercise : str or Exercise
        One of the course by its name: that of a function in ``ops``, a layer's class, an optimiser,
        or one of a chapter's own; or one that you have made.
    forward, backward : callable, optional
        Either may be left out. ``backward`` alone is handed the package's own cache; beside a
        ``forward``, whatever that returned as its second value. A layer's are methods, with the
        layer as their first argument; an optimiser's ``update`` is given as ``forward``.

    Returns
    -------
    Report

    Raises
    ------
    ValueError
        If there is no exercise of this name, or no function.
    """
    exercise = find_exercise(exercise) if isinstance(exercise, str) else exercise
    check_functions(exercise, forward, backward)
    return report_on(Answer(exercise, forward, backward))


def report_on(answer: Answer) -> Report:
    """Examine an answer, wherever its functions are."""
    exercise = answer.exercise
    misfits = answer.misfits()
    if misfits:
        return Report(exercise.name, False, True, misfits[0])
    try:
        own = answer.runs()
    except NotWritten:
        return not_written(answer)
    stages: list[Stage] = []
    judged = range(len(own.forward or own.backward))
    for name, ours in zip(Runs._fields, own, strict=True):
        if ours and judged:
            stage = stage_of(answer, name, ours, tuple(judged))
            stages.append(stage._replace(after=bool(stages)))
            judged = judged_after(stage)
    return put_into_words(answer, stages, own)


def after_mending(answer, stage, own):
    """Compare the backward pass with what it should be but for the mistake of the forward pass.

    With a small change that mends the forward pass, or else with the package that has the same
    mistake in both passes. Returns what is said of it first, the stage, and what explains it; None
    where nothing is known of the mistake.
    """
    try:
        mended = answer.mended(*asked_at(stage))
        runs = mended.runs().backward if mended else []
    except Failed:  # with a change it ends its process
        return None
    everywhere = tuple(range(len(own.backward)))
    if runs and not runs[0].failure:
        found = stage_of(mended, "backward", runs, everywhere)._replace(after=True)
        return "with your forward pass fixed", found, explain
    for right in both_passes_with(stage):
        found = stage_of(answer, "backward", own.backward, everywhere, right)
        if not own.backward[0].failure and by_numbers(found):
            return "apart from this mistake", found, by_numbers
    return None


def moved(answer, stage, point, name, array):
    return answer.moved(stage, point.name, name, array)


def check_functions(exercise, forward, backward):
    if forward is None and backward is None:
        raise ValueError(f"{exercise.name}: expected a function to examine, got none")
    for title, function in (("forward", forward), ("backward", backward)):
        if function is not None and not callable(function):
            raise ValueError(f"{title}: expected a function, got {type(function).__name__}")
    if backward and not exercise.backward:
        raise ValueError(f"backward: expected none, {exercise.name} is one function")


def not_written(answer):
    """Report which of the functions is a stub, and examine the other."""
    verdicts, open_ = [], []
    for title, stage in zip(titles_of(answer.exercise), Runs._fields, strict=False):
        if not getattr(answer, stage):
            continue
        alone = answer.alone(stage)
        try:
            alone.runs()
        except NotWritten:
            open_.append(f"{title}: not written yet.")
        else:
            if stage == "forward":
                report = report_on(alone)
                if not report.right:
                    return report
                verdicts.append(f"{title}: right.")
    return Report(answer.exercise.name, False, False, said_together([*verdicts, *open_]))


def judged_after(stage):
    """Return the numbers of the points at which the backward pass can be judged, if it can.

    It can where a forward pass is right that is wrong at special points alone.
    """
    good = [at for at, run in enumerate(stage.own) if is_right(stage, at)]
    generic = {at for at, point in enumerate(stage.points) if point.name.startswith("generic")}
    return good if generic <= {*good} else []


def is_right(stage, at):
    """Tell whether a pass is right at the point of this number, but for what it changes."""
    run, right = stage.own[at], stage.right[at]
    return not run.failure and all(
        agrees(run.outputs.get(name), right.outputs.get(name), stage.right[0], name)
        for name in right.outputs
    )


def stage_of(answer, name, own, judged, right=None):
    """Compare a pass with the right one, or with another, at the points of these numbers."""
    exercise = at_points(answer.exercise, judged)
    own, right = [own[at] for at in judged], right or getattr(run_right(exercise), name)
    wrong = {}
    for run, expected in zip(own, right, strict=True):
        if run.failure:
            wrong[""] = True
            continue
        for output in dict.fromkeys([*expected.outputs, *run.outputs]):
            if not agrees(run.outputs.get(output), expected.outputs.get(output), right[0], output):
                wrong[output] = True
    order = [*right[0].outputs, *wrong]
    names = [n for n in dict.fromkeys(order) if n in wrong]
    again = partial(moved, answer, name)
    asked = partial(answer.values, name), partial(answer.repairs, name)
    return Stage(exercise, name, own, right, names, again, *asked)


def agrees(own, expected, generic, name):
    return (
        own is not None
        and expected is not None
        and sort_of_number(own) == sort_of_number(expected)
        and error_of(own, expected, size_of(generic, name)) <= TOLERANCE
    )


def sort_of_number(array):
    """Tell truth values, numbers of 32 bits and all others apart."""
    return array.dtype if array.dtype in (bool, np.float32) else None


def size_of(generic, name):
    """Return the size below which an output counts as zero: a thousandth of its generic norm."""
    array = generic.outputs.get(name, np.zeros(1))
    return 1e-3 * float(np.linalg.norm(array))


def error_of(own, expected, scale):
    """Return the relative error of an output; infinite where the shape is another."""
    if own is None or expected is None or own.shape != expected.shape:
        return np.inf
    if not own.size:
        return 0.0
    own, expected = np.atleast_1d(own), np.atleast_1d(expected)
    same = (own == expected) | (np.isnan(own) & np.isnan(expected))
    if same.all():
        return 0.0
    infinite = same & ~np.isfinite(own)
    own, expected = np.where(infinite, 0, own), np.where(infinite, 0, expected)
    with np.errstate(all="ignore"):
        return gradient_error(own.astype(float), expected.astype(float), scale).norm


def gap_of(own, expected):
    """Return the difference of each entry: 0 where both are the same infinity."""
    own, expected = 1.0 * np.atleast_1d(own), np.atleast_1d(expected)
    with np.errstate(invalid="ignore"):
        return np.where(own == expected, 0.0, np.abs(own - expected))


def put_into_words(answer, stages, own):
    """Put what was found into words."""
    exercise, points = answer.exercise, answer.exercise.points()
    forward, backward = answer.forward, answer.backward
    titles = dict(zip(Runs._fields, titles_of(exercise), strict=False))
    verdicts, explanations, mistakes, errors, pictures = [], [], [], {}, {}
    for stage in stages:
        title = titles[stage.name]
        errors |= table_of(stage)
        if not stage.wrong:
            where = " where your forward pass is" * (len(stage.points) < len(points))
            verdicts.append(f"{title}: right{where}.")
            continue
        verdicts.append(f"{title}: {verdict_of(stage)}")
        with catch_warnings(action="ignore"):  # of the package with a mistake in it
            found = explain(stage)
        explanations += failures_of(stage)
        explanations += [explanation.text for explanation in found]
        explanations += writes_of(answer, stage)
        mistakes += [name for each in found for name in each.mistakes]
        known = found or stage.own[0].failure
        if not known and any(name in stage.right[0].outputs for name in stage.wrong):
            explanations.append(unknown(stage))
        if not stage.own[0].failure and not any(each.mistakes for each in found):
            explanations += filter(None, [by_values(stage)])
        special = right_where(stage)
        if special and not any(ONLY_HERE in text for text in explanations):
            explanations.append(special)
        pictures |= pictures_of(stage)
    right = not any(stage.wrong for stage in stages)
    notes = []
    if forward and backward and not (stages[0].wrong and stages[1:]):
        witness, fits = measured(answer, own)
        if witness and (right or not fits):
            notes.append(witness)
        later = right and answer.later()
        if fits is False and right:
            right = False
            verdicts = [f"{titles['backward']}: it is not the derivative of your forward pass."]
        elif later:
            right = False
            verdicts = [f"{titles['backward']}: {later}\n{REMEMBERS}"]
        if stages[0].wrong:
            first = "fix the forward pass first."
            if fits is None:
                said = f"cannot be judged yet: {first}"
                if witness:
                    said = f"cannot be judged yet: {witness}\nFix the forward pass first."
            else:
                at = f' at the point "{points[0].name}"' if fits else ""
                said = f"{'fits' if fits else 'does not fit'} your forward pass{at}: {first}"
            if not fits and (mended := after_mending(answer, stages[0], own)):
                how, stage, explained = mended
                said = f"{how}, {verdict_of(stage)}" if stage.wrong else f"{how}, right."
                with catch_warnings(action="ignore"):
                    found = explained(stage) if stage.wrong else ()
                explanations += [explanation.text for explanation in found]
                mistakes += [name for each in found for name in each.mistakes]
            verdicts.append(f"{titles['backward']}: {said}")
            notes = []
    if right or not (forward and backward) or only_changes(stages[0]):
        notes += theorems(exercise, points[0], own, right)
    if forward and not any(run.failure for run in own.forward):
        notes += wider(answer)
    if right:
        worst = max((e for row in errors.values() for e in row.values()), default=0)
        notes.insert(0, f"{len(points)} points, largest error {worst:.0e}.")
    place = place_of(exercise)
    where = [f"-> {place}"] if place else []
    if exercise.hints and not right:
        where.append(f"transformer-practice hint FOLDER {exercise.name}    for a hint")
    return Report(
        exercise.name,
        right,
        True,
        said_together(verdicts),
        tuple(dict.fromkeys(mistakes)),
        tuple(explanations),
        errors,
        tuple(notes),
        "" if right else "\n".join(where),
        pictures,
    )


def only_changes(stage):
    """Tell whether a pass is right, but for arrays of the caller that it changes."""
    return all(name.endswith(LEFT) for name in stage.wrong)


def writes_of(answer, stage):
    """Say in which line arrays of the caller are changed."""
    runs = zip(stage.points, stage.own, strict=True)
    at = [p.name for p, run in runs if any(name.endswith(LEFT) for name in run.outputs)]
    line = answer.write(stage.name, at[0]) if at else ""
    remedy = (
        "keep the old number, and write it back" if answer.exercise.restores else "make a new one"
    )
    if line:
        return [f"In {line}\nThis writes into the caller's array: {remedy}."]
    if SELF not in stage.wrong:
        return []
    return [
        KEPT
        if stage.name == "forward"
        else "A backward pass returns gradients and changes nothing."
    ]


def verdict_of(stage):
    """Say which outputs are wrong and which are right, or what fails."""
    generic = stage.own[0]
    if generic.failure:
        return f"{full_stop(generic.failure)}{where_it_runs(stage)}"
    left = [name for name in stage.wrong if name.endswith(LEFT)]
    if stage.wrong == [""]:
        runs = zip(stage.points, stage.own, strict=True)
        name, failure = next((point.name, run.failure) for point, run in runs if run.failure)
        return full_stop(f'right, but not at the point "{name}": {failure}')
    wrong = [name for name in stage.wrong if name and name not in left]
    right = [name for name in stage.right[0].outputs if name not in stage.wrong]
    text = ""
    if len(wrong) > MANY:
        text = f"{len(wrong)} outputs are wrong, among them {listed(wrong[:MANY])}"
    elif wrong:
        text = f"{listed(wrong)} {'are' if len(wrong) > 1 else 'is'} wrong"
    if wrong and right:
        which = "all others" if len(right) > MANY else listed(right)
        text += f", {which} {'are' if len(right) > 1 else 'is'} right"
    if left:
        arrays = listed(name.removesuffix(LEFT) for name in left)
        changes = f"it changes the caller's {arrays}"
        text = f"{text}; {changes}" if text else f"{changes}; what it returns is right"
    return f"{text}."


def where_it_runs(stage):
    """Say of a pass that fails at the generic point which outputs are right where it runs."""
    runs = zip(stage.points, stage.own, strict=True)
    names = [point.name for point, run in runs if not run.failure]
    outputs = stage.right[0].outputs
    if not names or len(outputs) == 1:
        return "\nNo output can be judged yet." if len(outputs) > 1 else ""
    wrong = [name for name in stage.wrong if name in outputs]
    right = [name for name in outputs if name not in stage.wrong]
    said = [
        f"{listed(some)} {'is' if len(some) == 1 else 'are'} {verdict}"
        for some, verdict in ((wrong, "wrong"), (right, "right"))
        if some
    ]
    return f"\nWhere it runs ({'; '.join(names)}), {', '.join(said)}."


def said_together(verdicts):
    """Join verdicts: whatever follows one that is not simply "right" begins a line."""
    first, *rest = verdicts
    return first + "".join(
        (" " if before.endswith(": right.") else "\n") + verdict
        for before, verdict in zip(verdicts, rest, strict=False)
    )


def full_stop(failure):
    """End a failure as a sentence; its lines of code stay as they are."""
    first, line, rest = failure.partition("\n")
    return first + "." * (first[-1] not in ".?!") + line + rest


def failures_of(stage):
    """Say every failure once, with the points at which it is met, where not all fail."""
    if stage.own[0].failure or stage.wrong == [""]:
        return []
    met: dict[str, list[str]] = {}
    for point, run in zip(stage.points, stage.own, strict=True):
        if run.failure:
            met.setdefault(run.failure, []).append(point.name)
    return [
        full_stop(f"Where it fails ({'; '.join(names)}), it {failure}")
        for failure, names in met.items()
    ]


def right_where(stage):
    """Say at which points a wrong pass is right, or at which ones alone it is wrong."""
    points = stage.points
    good = [point.name for at, point in enumerate(points) if is_right(stage, at)]
    if not good or stage.wrong == [""]:
        return ""
    if points[0].name in good:
        bad = [point.name for point in points if point.name not in good]
        return f"It {ONLY_HERE}: {'; '.join(bad)}." if bad else ""
    if len(good) == 1:
        return f"This point alone would not have shown it: {good[0]}."
    return f"These points alone would not have shown it: {'; '.join(good)}."


def unknown(stage):
    """Say that nothing explains it, and what was seen."""
    text = "It is wrong, but matches no mistake that I know."
    for point, run, right in zip(stage.points, stage.own, stage.right, strict=True):
        gaps = {}
        for name in stage.wrong:
            own, expected = run.outputs.get(name), right.outputs.get(name)
            if own is not None and expected is not None and own.shape == expected.shape:
                gap = gap_of(own, expected)
                if not agrees(own, expected, stage.right[0], name) and gap.size:
                    gaps[name] = np.nan_to_num(gap, nan=np.inf)
        if not gaps:
            continue
        name = max(gaps, key=lambda n: gaps[n].max())
        at = np.unravel_index(gaps[name].argmax(), gaps[name].shape)
        mine, theirs = (
            np.atleast_1d(outputs[name])[at] for outputs in (run.outputs, right.outputs)
        )
        where = ", ".join(map(str, map(int, at)))
        entry = f"{name}[{where}]" if run.outputs[name].ndim else name
        return (
            f'{text}\nThe largest error at the point "{point.name}"{given(point)} is in {entry}: '
            f"yours {mine:.6g}, expected {theirs:.6g}."
        )
    return text


def given(point):
    """Write the arguments of a point after its name, if all of them are numbers."""
    if not all(isinstance(v, int | float | str) for v in point.arguments.values()):
        return ""
    return f" ({', '.join(f'{n} = {v}' for n, v in point.arguments.items())})"


def table_of(stage):
    """Give the error of every output at every point, if the pass does not fail everywhere."""
    if all(run.failure for run in stage.own):
        return {}
    names = dict.fromkeys([*stage.right[0].outputs, *(n for n in stage.wrong if n)])
    return {
        name: {
            point.name: np.inf
            if run.failure
            else error_of(
                run.outputs.get(name, right.outputs.get(name) if name not in stage.wrong else None),
                right.outputs.get(name),
                size_of(stage.right[0], name),
            )
            for point, run, right in zip(stage.points, stage.own, stage.right, strict=True)
            if name in right.outputs or run.failure
        }
        for name in names
        if not name.endswith(LEFT)
    }


def pictures_of(stage):
    """Give the error of every wrong output, entry by entry, where it is wrong first."""
    found = {}
    for run, right in zip(stage.own, stage.right, strict=True):
        for name in stage.wrong:
            own, expected = run.outputs.get(name), right.outputs.get(name)
            if name in found or own is None or expected is None or own.shape != expected.shape:
                continue
            gap = gap_of(own, expected)
            gap = np.nan_to_num(np.float64(gap), posinf=1e300)
            if 1 < gap.size <= 400 and gap.max() > 0:
                found[name] = gap / gap.max()
    return found


def measured(answer, own):
    """Compare the backward pass with central differences of the reader's own forward pass.

    Returns a sentence, and whether they agree: None where that cannot be told.
    """
    run = own.backward[0]
    if run.failure:
        return "", None
    slopes, failure = answer.slopes()
    if failure:
        return full_stop(f"central differences of your forward pass fail: {failure}"), None
    errors = {}
    scale = 1e-3 * max(float(np.linalg.norm(slope)) for _, slope in slopes.values())
    if not np.isfinite(scale):
        kind = "NaN" if np.isnan(scale) else "infinite"
        return f"central differences of your forward pass fail: they are {kind}.", None
    for name, (at, slope) in slopes.items():
        if name in run.outputs and run.outputs[name].size > at.max(initial=0):
            found = run.outputs[name].astype(float).flat[at]
            errors[name] = gradient_error(found, slope, scale).norm
    worst = max(errors.values(), default=np.inf)
    fits = bool(worst < WITNESS_TOLERANCE) and errors.keys() == slopes.keys()
    return f"Error against central differences of your own forward pass: {worst:.0e}.", fits


def wider(answer):
    """Say which outputs are of 64 bits where all arrays that go in are of 32."""
    if answer.exercise.in_place or answer.exercise.points()[0].cotangent is None:
        return []
    names = answer.wide()
    if not names:
        return []
    come = "is" if len(names) == 1 else "are"
    return [
        f"For float32 inputs, {listed(names)} {come} in float64, which slows training down. "
        "math.sqrt of a whole number keeps float32, np.sqrt does not; new arrays need a dtype."
    ]


def theorems(exercise, point, own, right):
    """Say which theorems break at the generic point; of right outputs, how many hold."""
    outputs = {}
    for runs in (own.forward, own.backward):
        if runs and not runs[0].failure:
            outputs |= runs[0].outputs
    held, broken = 0, []
    for theorem in exercise.theorems:
        try:
            with np.errstate(all="ignore"):
                deviation = theorem.deviation(point, outputs)
        except (KeyError, ValueError, IndexError):  # of outputs that are not there, or misshapen
            continue
        if not np.isfinite(deviation):
            continue
        if deviation < TOLERANCE:
            held += 1
        else:
            broken.append(f"Theorem: {theorem.sentence}. Here it is off by {deviation:.2g}.")
    if held and right and not broken:
        broken = [f"{held} of {held} theorem{'s' * (held > 1)} hold{'s' * (held == 1)}."]
    return broken
