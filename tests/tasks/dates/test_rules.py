import numpy as np
import pytest

from transformer_core.tasks.dates import DateRules, split_days


@pytest.fixture(scope="module")
def rules():
    return DateRules()


@pytest.mark.parametrize(
    "text, answer",
    [
        ("Jeudi 5 mars 1998", "1998-03-05"),
        ("March 5, 1998", "1998-03-05"),
        ("mar, 5 may 1998", "1998-05-05"),  # a Spanish Tuesday, and no March
        ("٥ مارس ١٩٩٨", "1998-03-05"),
        ("1998年3月5日木曜日", "1998-03-05"),
        ("1998. 3. 5.", "1998-03-05"),
        ("25.3.1998", "1998-03-25"),
        ("3/25/1998", "1998-03-25"),
        ("2/3/1998", "1998-03-02"),
        ("1998-03-05", "1998-03-05"),
        ("30 février 1998", ""),
        ("5 marz 1998", ""),
        ("5 mars 98", ""),
        ("mars 1998", ""),
        ("31/13/1998", ""),
        ("5/3/98", ""),
        ("5 6 7 1998", ""),
        ("", ""),
    ],
)
def test_dates_are_read_by_rules(rules, text, answer):
    assert rules.read(text) == answer


def test_the_order_told_decides_where_both_are_possible(rules):
    month_first = DateRules(month_first=True)
    assert rules.read("2/3/1998") == "1998-03-02"
    assert month_first.read("2/3/1998") == "1998-02-03"
    for text in ("25/3/1998", "3/25/1998", "1998/3/25", "25 march 1998"):
        assert rules.read(text) == month_first.read(text) == "1998-03-25"


@pytest.mark.parametrize(
    "languages, message",
    [
        ((), "languages: expected at least one, got none"),
        (("en", "xx"), "language: expected one of CLDR, got 'xx'"),
        (("x/y",), "language: expected one of CLDR, got 'x/y'"),
    ],
)
def test_languages_without_rules_are_named(languages, message):
    with pytest.raises(ValueError, match=message):
        DateRules(languages)


def test_they_fail_on_american_numbers_alone(rules, dates, rng):
    texts, answers, formats = dates.sample(3000, split_days().validation, rng)
    right = np.array([rules.read(t) == a for t, a in zip(texts, answers, strict=True)])
    assert right.mean() > 0.99
    wrong = {(str(formats[n].locale), formats[n].name) for n in np.nonzero(~right)[0]}
    assert wrong == {("en", "yMEd")}
