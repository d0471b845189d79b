"""Every exercise: the package's own functions pass, and what is said of it is true."""

import inspect
import re
from functools import cache

import numpy as np
import pytest
from helpers.texts import ROOT, read

from transformer_practice import examine
from transformer_practice.engine import repair
from transformer_practice.engine.exercise import (
    LayerExercise,
    OpExercise,
    names_of,
    stub,
    written_in,
)
from transformer_practice.engine.runs import (
    TOLERANCE,
    as_the_page_has_it,
    passes_agree,
    run_package,
    run_right,
)
from transformer_practice.exercises import every_exercise, find_exercise

EXERCISES = list(every_exercise())

every_one = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)
with_gradients = pytest.mark.parametrize(
    "exercise",
    [e for e in EXERCISES if isinstance(e, OpExercise | LayerExercise) and e.backward],
    ids=lambda e: e.name,
)


def test_no_two_have_one_name():
    assert len({exercise.name for exercise in EXERCISES}) == len(EXERCISES)


def test_they_come_in_the_order_of_the_book():
    chapters = [exercise.chapter for exercise in EXERCISES]
    assert chapters == sorted(chapters)


def test_an_unknown_name_is_an_error():
    message = r"name: expected one of the exercises, .*, got 'soft_max': did you mean softmax"
    with pytest.raises(ValueError, match=message):
        find_exercise("soft_max")
    with pytest.raises(ValueError, match="got 'zzz'$"):
        find_exercise("zzz")


@pytest.mark.parametrize(
    "exercise",
    [
        pytest.param(exercise, marks=[pytest.mark.thorough] * (number % 3 > 0), id=exercise.name)
        for number, exercise in enumerate(EXERCISES)
    ],
)
def test_the_package_passes(exercise):
    functions = [exercise.forward, exercise.backward][: 2 if exercise.backward else 1]
    report = examine(exercise.name, *functions)
    assert report.right, str(report)
    assert report.mistakes == ()
    assert "fail" not in report.whole()


@pytest.mark.slow
@with_gradients
def test_either_function_may_be_left_out(exercise):
    assert examine(exercise.name, forward=exercise.forward).right
    assert examine(exercise.name, backward=exercise.backward).right


@pytest.mark.slow
@every_one
def test_what_is_not_written_is_told_and_nothing_fails(exercise):
    namespace = {"np": np}
    exec(stub(exercise), namespace)
    report = examine(exercise.name, *written_in(exercise, namespace))
    assert not report.written and not report.right
    assert "not written yet" in report.whole()


@every_one
def test_it_begins_with_generic_points_of_two_sizes(exercise):
    points = exercise.points()
    names = [point.name for point in points]
    assert names[0] == "generic" and len(set(names)) == len(names)
    if isinstance(exercise, OpExercise | LayerExercise):
        first, other = points[0], points[names.index("generic, other sizes")]
        assert first.sizes.keys() == other.sizes.keys()
        changed = [n for n in first.sizes if first.sizes[n] != other.sizes[n]]
        assert changed or not first.sizes
        whole = [size for name, size in first.sizes.items() if size > 1]
        assert len(set(whole)) == len(whole), "two sizes are equal: ratios have two names"


@every_one
def test_the_points_are_the_same_each_time_and_none_comes_to_nothing(exercise):
    right = run_right(exercise)
    for runs in (right.forward, right.backward):
        for run in runs:
            assert not run.failure and run.outputs
    for one, other in zip(exercise.points(), exercise.points(), strict=True):
        if one.cotangent is not None:
            assert np.array_equal(one.cotangent, other.cotangent)


@with_gradients
def test_the_generic_gradients_are_not_zero(exercise):
    for array in run_right(exercise).backward[0].outputs.values():
        assert np.abs(array).max() > 0


@pytest.mark.parametrize("exercise", [e for e in EXERCISES if e.terms], ids=lambda e: e.name)
def test_terms_add_up_to_the_output(exercise):
    right = run_right(exercise)
    for name, terms in exercise.terms.items():
        for i, point in enumerate(exercise.points()):
            if point.name.startswith("generic"):
                outputs = right.forward[i].outputs
                if exercise.backward:
                    outputs = outputs | right.backward[i].outputs
                total = sum(terms(point).values())
                assert np.allclose(total, outputs[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("exercise", [e for e in every_exercise() if e.plain], ids=lambda e: e.name)
def test_the_plain_functions_are_the_packages(exercise):
    plain, right = run_package(as_the_page_has_it(exercise)), run_right(exercise)
    assert passes_agree(plain.forward, right.forward)
    assert passes_agree(plain.backward, right.backward)


@pytest.mark.parametrize("exercise", [e for e in EXERCISES if e.theorems], ids=lambda e: e.name)
def test_theorems_hold_for_the_package_and_not_for_any_numbers(exercise):
    right, points = run_right(exercise), exercise.points()
    outputs = right.forward[0].outputs | (right.backward[0].outputs if right.backward else {})
    rng = np.random.default_rng(0)
    for theorem in exercise.theorems:
        assert theorem.deviation(points[0], outputs) < TOLERANCE
        noise = {n: a + rng.normal(size=np.shape(a)) for n, a in outputs.items()}
        negative = {n: -a for n, a in outputs.items()}
        wrong = [theorem.deviation(points[0], each) for each in (noise, negative)]
        assert max(wrong) > 1e-3


@every_one
def test_there_are_three_hints_and_none_is_the_solution(exercise):
    assert len(exercise.hints) == len(set(exercise.hints)) == 3
    for hint in exercise.hints:
        assert 20 < len(hint) < 500
        assert "@" not in hint and "lambda" not in hint


@cache
def book():
    return "\n".join(map(read, ROOT.glob("book/*.md")))


@every_one
def test_the_chapter_has_the_exercise_its_equations_and_a_starter(exercise):
    page = read(ROOT / "book" / f"{exercise.chapter}.md")
    notebook = read(ROOT / "notebooks" / f"{exercise.chapter}.ipynb")
    for function in exercise.functions:
        for label in re.findall(r"eq:[\w-]+", function.equation):
            assert f"({label})" in book() or f":label: {label}" in book(), label
    assert f"practice hint {exercise.name}" in re.sub(r"FOLDER ", "", page)
    assert f'examine(\\"{exercise.name}\\"' in notebook


@every_one
def test_the_signature_is_that_of_the_function(exercise):
    assert len(exercise.functions) == len(names_of(exercise))


def everywhere(number):
    return lambda array: np.full(array.shape, number)


def in_one_place(number):
    def change(array):
        changed = np.array(array, float)
        changed.flat[:1] = number
        return changed

    return change


def spoilt(value, change, kinds="f"):
    """Return what a pass returns, with its arrays of some kinds changed."""
    if isinstance(value, (np.ndarray, np.generic, int, float)):
        array = np.asarray(value)
        return change(array) if array.dtype.kind in kinds else value
    if isinstance(value, dict):
        return {name: spoilt(each, change, kinds) for name, each in value.items()}
    if isinstance(value, list | tuple):
        parts = [spoilt(each, change, kinds) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def with_numbers_that_are_none(exercise, change):
    """Return the package's forward pass, whose output, and cache, are then changed."""

    def forward(*arguments, **options):
        value = exercise.forward(*arguments, **options)
        if exercise.backward:
            y, cache = value
            return spoilt(y, change), spoilt(cache, change)
        return spoilt(value, change, "fiub")

    def update(*arguments):
        given = inspect.signature(exercise.forward).bind(*arguments).arguments
        exercise.forward(*arguments)
        for each in (value for name, value in given.items() if name != "grad"):
            if isinstance(each, np.ndarray):
                each[...] = change(each)

    return update if exercise.in_place else forward


@pytest.mark.slow
@every_one
@pytest.mark.parametrize(
    "change",
    [everywhere(np.nan), in_one_place(np.nan), everywhere(np.inf)],
    ids=["nan", "one-nan", "infinite"],
)
def test_a_forward_pass_that_is_not_finite_is_an_answer_like_any_other(
    exercise, change, monkeypatch
):
    monkeypatch.setattr(repair, "CHANGES", 0)  # which would mend this function
    report = examine(exercise.name, with_numbers_that_are_none(exercise, change), exercise.backward)
    assert report.written and not report.right
    said = str(report)
    assert re.search("NaN|nan|infinite|inf\\b|expected booleans", said), said
    if exercise.backward:
        assert "cannot be judged yet: central differences of your forward pass fail: " in said
