from fractions import Fraction

import pytest

from transformer_practice.drills.drill import Drill, Step
from transformer_practice.drills.exact import exact, form, is_equal, mean, parse, show

NUMBER, ROW, MATRIX = exact(0), exact([0, 0, 0]), exact([[0, 0], [0, 0]])


def test_nothing_is_rounded():
    assert list(exact([1, 2]) / 3) == [Fraction(1, 3), Fraction(2, 3)]
    assert all(isinstance(n, Fraction) for n in exact([1, 2]))
    assert mean(exact([1, 2, 4])) == Fraction(7, 3)


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
    assert is_equal(parse(text, ROW), exact([1, 2, Fraction(1, 2)]))


@pytest.mark.parametrize("text", ["1, 2; 3, 4", "1 2;3 4", "((1, 2); (3, 4))"])
def test_matrices_are_read(text):
    assert is_equal(parse(text, MATRIX), exact([[1, 2], [3, 4]]))


A_NUMBER = "a number such as 3, -2/7 or 0.5"
A_ROW = "3 numbers, as in 1, 2, 3"
A_MATRIX = "2 rows of 2 numbers, as in 1, 2; 3, 4"


@pytest.mark.parametrize(
    "text, like, expected",
    [
        ("", NUMBER, A_NUMBER),
        ("1, 2", NUMBER, A_NUMBER),
        ("1/0", NUMBER, A_NUMBER),
        ("1/2/3", NUMBER, A_NUMBER),
        ("1e3", NUMBER, A_NUMBER),
        ("1/00", NUMBER, A_NUMBER),
        ("x", NUMBER, A_NUMBER),
        ("1, 2", ROW, A_ROW),
        ("1, 2, ", ROW, A_ROW),
        ("1; 2; 3", ROW, A_ROW),
        ("1, 2, 3, 4", MATRIX, A_MATRIX),
        ("1, 2; 3", MATRIX, A_MATRIX),
    ],
)
def test_another_form_is_refused_with_what_was_expected(text, like, expected):
    with pytest.raises(ValueError) as error:
        parse(text, like)
    assert str(error.value) == f"answer: expected {expected}, got {text.strip()!r}"


@pytest.mark.parametrize("like, expected", [(NUMBER, A_NUMBER), (ROW, A_ROW), (MATRIX, A_MATRIX)])
def test_a_form_says_what_is_expected(like, expected):
    assert form(like) == expected


@pytest.mark.parametrize("like", [ROW, MATRIX])
def test_the_example_of_a_form_is_read(like):
    assert parse(form(like).partition("as in ")[2], like).shape == like.shape


@pytest.mark.parametrize(
    "answer, value, words",
    [
        ("1/3", "-1/3", "The sign is reversed."),
        ("1, -2", "-1, 2", "The sign is reversed."),
        ("1, 0, 2", "3, 0, 6", "This is 3 times the right answer."),
        ("2, 4", "1, 2", "This is 1/2 times the right answer."),
        ("1, 0", "-2, 0", "This is -2 times the right answer."),
        ("1/3", "0.33", "This is rounded; the answer is a fraction."),
        ("2/3, 1", "0.66, 1", "This is rounded; the answer is a fraction."),
        ("1/3", "1/2", "This is not the right number."),
        ("2", "6", "This is not the right number."),
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


def test_values_are_equal_by_shape_and_numbers():
    assert is_equal(exact([1, 2]), exact((1, 2)))
    assert not is_equal(exact([1, 2]), exact([1, 3]))
    assert not is_equal(exact([1, 2]), exact([[1, 2]]))
    assert not is_equal(exact([1]), exact(1))
