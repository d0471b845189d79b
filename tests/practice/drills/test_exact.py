from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_practice.drills.drill import Drill, Step
from transformer_practice.drills.exact import Array, exact, form, mean, outer, parse, shape, show

NUMBER, ROW, MATRIX = exact(0), exact([0, 0, 0]), exact([[0, 0], [0, 0]])
entries = st.integers(-9, 9)
rows = st.lists(entries, min_size=3, max_size=3)
matrices = st.lists(rows, min_size=2, max_size=4)


def integers(array):
    return np.array([[int(n) for n in row] for row in array])


@given(matrices, rows, st.data())
def test_arrays_compute_as_numpy_does(a, row, data):
    b = data.draw(st.lists(rows, min_size=len(a), max_size=len(a)))
    exact_a, exact_b, exact_row = exact(a), exact(b), exact(row)
    a, b, row = np.array(a), np.array(b), np.array(row)
    assert (integers(exact_a + exact_b) == a + b).all()
    assert (integers(exact_a - exact_b) == a - b).all()
    assert (integers(exact_a * exact_b) == a * b).all()
    assert (integers(exact_a + exact_row) == a + row).all()
    assert (integers(2 - exact_a * 3) == 2 - a * 3).all()
    assert (integers(-exact_a.T) == -a.T).all()
    assert (integers(exact_a @ exact_b.T) == a @ b.T).all()
    assert list(exact_a @ exact_row) == list(a @ row)
    assert list(exact_row @ exact_a.T) == list(row @ a.T)
    assert exact_row @ exact_row == row @ row
    assert list(sum(exact_a)) == list(a.sum(axis=0))
    assert float(mean(exact_row)) == pytest.approx(row.mean())
    assert (integers(outer(exact_row, exact_row)) == np.outer(row, row)).all()
    assert exact_a / 7 * 7 == exact_a
    assert shape(exact_a) == a.shape


def test_nothing_is_rounded():
    assert list(exact([1, 2]) / 3) == [Fraction(1, 3), Fraction(2, 3)]
    assert all(isinstance(n, Fraction) for n in exact([1, 2]))


def test_rows_of_unlike_length_do_not_combine():
    with pytest.raises(ValueError):
        exact([1, 2]) + exact([1, 2, 3])


@pytest.mark.parametrize(
    "text, value",
    [
        ("3", 3),
        (" -2/7 ", Fraction(-2, 7)),
        ("−2 / 7", Fraction(-2, 7)),
        ("0.5", Fraction(1, 2)),
        ("-.25", Fraction(-1, 4)),
        ("4/8", Fraction(1, 2)),
        ("-0", 0),
    ],
)
def test_numbers_are_read(text, value):
    assert parse(text, NUMBER) == value


@pytest.mark.parametrize(
    "text", ["1, 2, 1/2", "(1 2 0.5)", "[1,2,.5]", " 1 , 2 , 2 / 4 ", "1 2, 1/2"]
)
def test_rows_are_read(text):
    assert parse(text, ROW) == exact([1, 2, Fraction(1, 2)])


@pytest.mark.parametrize("text", ["1, 2; 3, 4", "1 2;3 4", "((1, 2); (3, 4))"])
def test_matrices_are_read(text):
    assert parse(text, MATRIX) == exact([[1, 2], [3, 4]])


@pytest.mark.parametrize(
    "text, like, expected",
    [
        ("", NUMBER, "a number such as 3, -2/7 or 0.5"),
        ("1, 2", NUMBER, "a number such as 3, -2/7 or 0.5"),
        ("1/0", NUMBER, "a number such as 3, -2/7 or 0.5"),
        ("1/2/3", NUMBER, "a number such as 3, -2/7 or 0.5"),
        ("1e3", NUMBER, "a number such as 3, -2/7 or 0.5"),
        ("1/00", NUMBER, "a number such as 3, -2/7 or 0.5"),
        ("x", NUMBER, "a number such as 3, -2/7 or 0.5"),
        ("1, 2", ROW, "3 numbers, as in 1, 2, 3"),
        ("1, 2, ", ROW, "3 numbers, as in 1, 2, 3"),
        ("1; 2; 3", ROW, "3 numbers, as in 1, 2, 3"),
        ("1, 2, 3, 4", MATRIX, "2 rows of 2 numbers, as in 1, 2; 3, 4"),
        ("1, 2; 3", MATRIX, "2 rows of 2 numbers, as in 1, 2; 3, 4"),
    ],
)
def test_another_form_is_refused_with_what_was_expected(text, like, expected):
    assert form(like) == expected
    with pytest.raises(ValueError) as error:
        parse(text, like)
    assert str(error.value) == f"answer: expected {expected}, got {text.strip()!r}"


def test_the_example_of_a_form_is_read():
    for like in (ROW, MATRIX):
        assert shape(parse(form(like).partition("as in ")[2], like)) == shape(like)


@pytest.mark.parametrize(
    "answer, value, words",
    [
        ("1/3", "-1/3", "The sign is turned."),
        ("1, -2", "-1, 2", "The sign is turned."),
        ("1, 0, 2", "3, 0, 6", "This is 3 times the right answer."),
        ("2, 4", "1, 2", "This is 1/2 times the right answer."),
        ("1, 0", "-2, 0", "This is -2 times the right answer."),
        ("1/3", "0.33", "This is rounded; the answer is a fraction."),
        ("2/3, 1", "0.66, 1", "This is rounded; the answer is a fraction."),
        ("1/3", "1/2", "This is not the number."),
        ("2", "6", "This is not the number."),
        ("1, 2, 3", "1, 3, 4", "Entry 2 of 3 is wrong."),
        ("1, 0, 3", "1, 1, 3", "Entry 2 of 3 is wrong."),
        ("1, 2", "0, 0", "Entry 1 of 2 is wrong."),
        ("1, 2; 3, 4", "1, 2; 3, 5", "Row 2 of 2 is wrong, in entry 2 of 2."),
        ("0, 0", "1, 1", "Entry 1 of 2 is wrong."),
    ],
)
def test_a_wrong_answer_that_nobody_expected_is_described(answer, value, words):
    rows = [[Fraction(n) for n in row.split(",")] for row in answer.split(";")]
    shaped = exact(rows if len(rows) > 1 else rows[0] if "," in answer else rows[0][0])
    step = Step("x", shaped, "The rule.")
    assert step.verdict(parse(value, shaped)) == f"{words} The rule."


def test_a_task_whose_slip_does_not_show_is_not_fair():
    def task(*slips):
        named = {str(n): slip for n, slip in enumerate(slips)}
        return Drill("", "", "", {"x": 1}, (Step("x", 1, "", named),))

    assert task(2, 3).is_fair()
    assert not task(1).is_fair()
    assert not task(2, 2).is_fair()
    assert not Drill("", "", "", {"x": 10_000}, ()).is_fair()
    assert not Drill("", "", "", {"x": Fraction(1, 257)}, ()).is_fair()


def test_values_are_written_as_they_are_read():
    assert show(exact([[1, Fraction(-1, 2)], [0, 3]])) == "1, -1/2; 0, 3"
    assert Array([1, 2]) == exact((1, 2))
