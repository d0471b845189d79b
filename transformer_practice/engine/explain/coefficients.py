"""The coefficients of a sum in the package with which it gives a wrong output."""

from functools import cache, partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from transformer_practice.engine.exercise import Exercise
from transformer_practice.engine.explain import ratios
from transformer_practice.engine.explain.catalogue import Sought, written_in
from transformer_practice.engine.explain.stage import listed, numbers
from transformer_practice.engine.mutation import Sum, sums_of
from transformer_practice.engine.runs import (
    Changed,
    as_the_page_has_it,
    briefly,
    called_by,
    close,
    points_of,
)

SUMS = 300  # that are tried if a pass is one function; or fewer
MOST_TERMS = 6
STEP = 0.01  # by which a coefficient is moved to see what depends on it
ROUNDS = 6
SPARE = 2  # equations more than unknowns
FEW_NUMBERS = 12  # below so many at the generic points, all points are asked


class Placed(NamedTuple):
    """A sum in a function that an exercise runs through, and what it comes to when moved."""

    exercise: Exercise
    sum: Sum
    moved: list[Changed]  # with one coefficient after the other, then with a number added

    def none(self) -> np.ndarray:
        """Return the coefficients, and the number that is added, with which nothing is changed."""
        return np.array([*[1.0] * len(self.sum.terms), 0.0])

    def changed(self, coefficients: np.ndarray) -> Changed | None:
        mutation = self.sum.with_coefficients(coefficients)
        return mutation and Changed(self.exercise, mutation, mutation.planted, call=briefly)


@cache
def sums(exercise: Exercise, stage: str) -> list[Placed]:
    """Return the sums that a pass runs through, those of the page and of its own file first."""
    return list(islice(placed_sums(exercise, stage), SUMS // len(called_by(exercise))))


def placed_sums(exercise, stage):
    if exercise.plain:
        yield from placed_sums(as_the_page_has_it(exercise), stage)
    called = called_by(exercise)
    for function in called:
        if stage in called[function].stages:
            for found in sums_of(function):
                if len(found.terms) <= MOST_TERMS:
                    placed = Placed(exercise, found, [])
                    steps = placed.none() + STEP * np.eye(len(found.terms) + 1)
                    moved = [placed.changed(step) for step in steps]
                    if all(moved):
                        yield placed._replace(moved=moved)


def by_coefficients(output):
    """Find a sum of the package that has other coefficients, or a product with a factor."""
    names = [point.name for point in points_of(output.exercise)]
    everywhere = [(names.index(case.point.name), case) for case in output.all]
    few = sum(case.own.size for case in output.cases) < FEW_NUMBERS
    chosen = [each for each in everywhere if few or each[1] in output.cases]
    for placed in sums(output.exercise, output.stage.name) if output.tells_much else ():
        found = fitted(output, placed, chosen)
        if found is not None and not is_constant(found):  # it is to be so at the others, too
            chosen = [(i, c) for i, c in everywhere if tells(output, placed, i, c)]
            found = fitted(output, placed, chosen)
        text = "" if found is None else said_of(output, placed, found, chosen)
        if text:
            where = f"in {written_in(placed.sum.function)}, {text}, in {placed.sum.shown}"
            return f"{output.name} is what you would get if, {where}."
    return ""


def fitted(output, placed, cases):
    """Return the coefficients with which a sum explains an output, a row for each point.

    A number is added to the sum only if it is not explained without.
    """
    at = partial(value_at, output)
    own = [case.own.ravel() for _, case in cases]
    start = [case.right.ravel() for _, case in cases]
    slopes = [slope_at(output, placed, i, case.right) for i, case in cases]
    if not cases or any(slope is None for slope in slopes):
        return None
    terms = len(placed.sum.terms)
    for unknown in (terms, terms + 1):
        some = [slope[:, :unknown] for slope in slopes]
        if np.concatenate(some).any(axis=0).all():
            found = apart(own, start, some) or together(placed, at, cases, own, start, some)
            found = found and [placed.none() + padded(k, terms + 1) for k in found]
            if found and all(
                value is not None and close(value, mine)
                for (i, _), mine, k in zip(cases, own, found, strict=True)
                for value in [at(placed.changed(k), i, mine.size)]
            ):
                return np.array(found)
    return None


def slope_at(output, placed, i, right):
    """Return how an output depends on each coefficient at a point, in columns, or None."""
    moved = [value_at(output, changed, i, right.size) for changed in placed.moved]
    if any(m is None for m in moved):
        return None
    return np.stack([(m - right.ravel()) / STEP for m in moved], axis=1)


def tells(output, placed, i, case):
    """Tell whether a point determines the coefficients."""
    slope = slope_at(output, placed, i, case.right)
    terms = len(placed.sum.terms)
    return slope is None or np.linalg.matrix_rank(slope[:, :terms]) == terms


def is_constant(found):
    return np.allclose(found, found[0], rtol=ratios.SAME, atol=1e-9)


def padded(array, size):
    return np.append(array, np.zeros(size - len(array)))


def value_at(output, changed, i, size):
    """Return what a changed package gives for an output at a point, or None."""
    run = changed and changed.at(i, output.stage.name, output.stage.after)
    found = run and run.outputs.get(output.name)
    if found is None or found.size != size or not np.isfinite(found).all():
        return None
    return numbers(found).ravel()


def apart(own, start, slopes):
    """Solve for the coefficients at each point by itself, if each has numbers enough."""
    found = []
    for mine, right, slope in zip(own, start, slopes, strict=True):
        terms = slope.shape[1]
        if len(mine) < terms + SPARE and not len(mine) == terms == 1:
            return None
        k, _, rank, _ = np.linalg.lstsq(slope, mine - right, rcond=None)
        if rank < terms or np.abs(slope @ k - (mine - right)).max() > 1e-7 * np.abs(mine).max():
            return None
        found.append(k)
    return found


def together(placed, at, cases, own, start, slopes):
    """Solve for coefficients that are the same at all points, from step to step."""
    mine, slope, value = (np.concatenate(parts) for parts in (own, slopes, start))
    terms = slope.shape[1]
    if len(mine) < terms + SPARE:
        return None
    k = np.zeros(terms)
    for _ in range(ROUNDS):
        gap = mine - value
        step, _, rank, _ = np.linalg.lstsq(slope, gap, rcond=None)
        if rank < terms or np.linalg.norm(slope @ step - gap) > 0.5 * np.linalg.norm(gap):
            return None
        k = k + step
        changed = placed.changed(placed.none() + padded(k, len(placed.moved)))
        values = [at(changed, i, case.own.size) for i, case in cases]
        if any(each is None for each in values):
            return None
        value = np.concatenate(values)
        if close(value, mine):
            return [k] * len(cases)
    return None


def said_of(output, placed, found, cases):
    """Say which terms have which coefficients; nothing if one of them is no number of sense."""
    said = []
    constant = is_constant(found)
    sizes = output.sizes_at([case for _, case in cases])
    if constant:
        if not Sought(output.stage, {output.name}).comes_of(placed.changed(found[0])):
            return ""
    elif not output.everywhere or len(found) < (2 if output.cases[0].own.size > 1 else 4):
        return ""
    *factors, added = found.T
    for term, k in zip(placed.sum.labels, factors, strict=True):
        if np.allclose(k, 1, rtol=ratios.SAME):
            continue
        if np.allclose(k, 0, atol=ratios.SAME):
            said.append(f"{term} were left out")
            continue
        names = ratios.names_of(list(k), sizes)
        plain = constant and abs(k[0] - round(k[0], 4)) < 1e-9
        if not names and not plain:
            return ""
        times = " or ".join(names) or f"{k[0]:.4g}"
        said.append(f"{term} were {times} times as large")
    if not np.allclose(added, 0, atol=ratios.SAME):
        if not constant or abs(added[0] - round(added[0], 4)) > 1e-9:
            return ""
        said.append(f"{added[0]:.4g} were added")
    return listed(said)
