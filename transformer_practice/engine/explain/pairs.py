"""Two changes of the package at once that come to a wrong output."""

from itertools import combinations, islice

import numpy as np

from transformer_practice.engine.explain.catalogue import Sought, written_in
from transformer_practice.engine.explain.stage import numbers
from transformer_practice.engine.mutation import Mutation, both
from transformer_practice.engine.repair import that_add_up
from transformer_practice.engine.runs import (
    Changed,
    briefly,
    called_by,
    catalogue_of,
    close,
    mutations,
    points_of,
)

TRIED = 600  # pairs that are run for an exercise of one function; of several, fewer
STEPS = 8  # by which there are fewer, too, where an optimiser takes steps
LIKELY = 20  # pairs that are run of those whose changes add up, or multiply


def by_two_changes(output):
    """Find two small changes of the package that come to an output together.

    First those that come to it if their effects add up, or multiply; then others of one function.
    """
    case = output.cases[0]
    if not output.tells_much or is_right_at_first(output, case):
        return ""
    i = [point.name for point in points_of(output.exercise)].index(case.point.name)
    effects = list(effects_of(output, case, i))
    tried = (*islice(independent(output, case, effects), LIKELY), *in_one_function(output, effects))
    sought = Sought(output.stage, {output.name})
    for one, other in tried:
        changed = at_once(one, other)
        if changed and sought.agrees(changed.at(i, output.stage.name, output.stage.after), i):
            if sought.comes_of(changed):
                both_said = f"{said(one)}, and{also(one, other)}"
                return f"{output.name} is what you would get if, {both_said}."
    return ""


def is_right_at_first(output, case):
    """Tell whether an optimiser's first step is right: then what it remembers is the cause."""
    return output.exercise.in_place and close(case.own[0], case.right[0])


def effects_of(output, case, i):
    """Yield changes, each with the other output at a point; of several alike, the first."""
    known: set[bytes] = set()
    stage = output.stage
    for changed in (*mutations(output.exercise, stage.name), *catalogue_of(output.exercise)):
        found = changed.at(i, stage.name, stage.after).outputs.get(output.name)
        if found is None or found.shape != case.own.shape or not np.isfinite(found).all():
            continue
        found = numbers(found)
        key = np.round(found / np.abs(case.right).max(initial=1e-300), 9).tobytes()
        if key not in known and not close(found, case.right):
            known.add(key)
            yield changed, found


def independent(output, case, effects):
    """Yield pairs whose effects come to the reader's output if they add up, or multiply."""
    if len(effects) < 2:
        return
    found = np.stack([moves(output, case, array) for _, array in effects])
    right, own = (moves(output, case, array) for array in (case.right, case.own))
    for one, other in that_add_up(found, right, own):
        yield effects[one][0], effects[other][0]


def moves(output, case, array):
    """Return an output as a row of numbers: of what an optimiser steps, how far each time."""
    before = case.point.arguments.get("parameters", {}) if output.exercise.in_place else {}
    if output.name in before:
        array = np.diff(np.concatenate([before[output.name][None], array]), axis=0)
    return array.ravel()


def in_one_function(output, effects):
    """Yield pairs of changes of one function, those of one statement first."""
    exercise = output.exercise
    most = TRIED // len(called_by(exercise)) // (STEPS if exercise.in_place else 1)
    changes = [each for each, _ in effects if isinstance(each.about, Mutation)]
    pairs = [p for p in combinations(changes, 2) if p[0].about.tree is p[1].about.tree]
    pairs.sort(key=lambda pair: pair[0].about.statement is not pair[1].about.statement)
    yield from pairs[:most]


def at_once(one: Changed, other: Changed) -> Changed | None:
    """Return the package with two changes; None if they change the same place."""
    about = one.about
    if one.exercise is not other.exercise:
        return None
    plants = [*one.planted, *other.planted]
    if all(isinstance(each.about, Mutation) for each in (one, other)):
        if one.about.function is other.about.function:
            about = both(one.about, other.about)
            if about is None:
                return None
            plants = [about.planted]
    return Changed(one.exercise, about, *plants, call=briefly)


def said(changed):
    """Say what is changed, and where."""
    about = changed.about
    if isinstance(about, Mutation):
        return f"in {written_in(about.function)}, {about.said}"
    return f'with the mistake "{about.name}", {about.mistake}'


def also(one, other):
    """Say of a second change what it is, and where, if that is elsewhere."""
    where, _, what = said(other).partition(", ")
    return f" {what}" if said(one).startswith(f"{where}, ") else f", {said(other)}"
