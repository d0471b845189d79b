import unicodedata
from collections import Counter
from datetime import date, timedelta
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.tasks.dates import LANGUAGES, Dates, normalise, split_days
from transformer_core.tasks.dates.data import date_formats

DAY = date(1998, 3, 5)


def written(language, day):
    return [form.write(day) for form in date_formats(language)]


@pytest.mark.parametrize(
    "language, texts",
    [
        ("en", ["thursday, march 5, 1998", "5 march 1998", "thu, 3/5/1998"]),
        ("de", ["donnerstag, 5. märz 1998", "05.03.1998", "5.3.1998"]),
        ("fr", ["jeudi 5 mars 1998", "jeu. 05/03/1998", "1998-03-05"]),
        ("es", ["jueves, 5 de marzo de 1998", "5/3/1998"]),
        ("it", ["giovedì 5 marzo 1998", "gio 5 mar 1998"]),
        ("pl", ["czwartek, 5 marca 1998", "5.03.1998"]),
        ("ru", ["четверг, 5 марта 1998 г.", "5 марта 1998"]),
        ("el", ["πέμπτη 5 μαρτίου 1998", "πέμ 5/3/1998"]),
        ("ar", ["الخميس، ٥ مارس ١٩٩٨", "٠٥/٠٣/١٩٩٨", "الخميس، 5 مارس 1998"]),
        ("ja", ["1998年3月5日木曜日", "1998年3月5日(木)", "1998/03/05"]),
        ("zh", ["1998年3月5日星期四", "1998/3/5周四"]),
        ("ko", ["1998년 3월 5일 목요일", "1998. 3. 5."]),
        ("nl", ["donderdag 5 maart 1998", "05-03-1998"]),  # not among LANGUAGES
    ],
)
def test_dates_are_written_as_people_write_them(language, texts):
    assert set(texts) <= set(written(language, DAY))


def test_there_are_many_languages_and_scripts(dates):
    scripts = {unicodedata.name(c).split()[0] for c in dates.source.characters if c.isalpha()}
    assert len(LANGUAGES) >= 10
    assert {form.language for form in dates.formats} == set(LANGUAGES)
    assert scripts == {"LATIN", "CYRILLIC", "GREEK", "ARABIC", "CJK", "HANGUL"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_has_at_least_seven_formats_no_two_alike(language):
    formats = [
        [form.write(day) for day in (date(2019, 2, 3), date(2019, 11, 25))]
        for form in date_formats(language)
    ]
    assert len(formats) >= 7
    assert len({tuple(texts) for texts in formats}) == len(formats)


@pytest.mark.thorough
def test_no_text_stands_for_two_dates(dates):
    day_of = {}
    for n in range(366):
        day = date(2020, 1, 1) + timedelta(n)
        for form in dates.formats:
            assert day_of.setdefault(form.write(day), day) == day, form


def test_english_numbers_are_american_behind_a_weekday_and_british_alone(dates):
    texts = [f.write(date(1998, 3, 5)) for f in dates.formats if f.language == "en"]
    in_numbers = {text for text in texts if "mar" not in text}
    assert in_numbers == {"thu, 3/5/1998", "05/03/1998", "1998-03-05"}


def test_every_year_is_written_in_full(dates):
    for form in dates.formats:
        assert form.write(date(1998, 3, 5)) != form.write(date(1898, 3, 5))


@pytest.mark.parametrize(
    "text, normalised",
    [
        ("Jeudi  5\tMARS 1998\n", "jeudi 5 mars 1998"),
        ("１９９８年３月５日", "1998年3月5日"),
        ("5\u200f/3\u200f/1998", "5/3/1998"),
        ("\ufeff5 марта 1998\u202fг.", "5 марта 1998 г."),
        ("5. ma\u0308rz 1998", "5. märz 1998"),
        ("5. ma\u200d\u0308rz 1998", "5. märz 1998"),  # something invisible in between
        ("J\u030c", "\u01f0"),  # which has no capital letter of its own
        (" ", ""),
    ],
)
def test_spelling_that_means_nothing_is_evened_out(text, normalised):
    assert normalise(text) == normalised


@given(st.text("aJΣİ \u0308\u030c\u0345\u200d", min_size=2))
def test_what_is_normalised_stays_as_it_is(text):
    assert normalise(normalise(text)) == normalise(text)


def test_the_days_are_split_without_overlap():
    split = split_days()
    days = [day for part in split for day in part]
    assert len(days) == len(set(days)) == 73049
    assert [len(part) for part in split] == [65737, 3620, 3692]
    assert min(days) == date(1900, 1, 1) and max(days) == date(2099, 12, 31)


def test_the_test_days_are_spread_over_years_months_and_days():
    for get, number in (
        (lambda day: day.year, 200),
        (lambda day: day.month, 12),
        (lambda day: day.day, 31),
    ):
        counts = Counter(map(get, split_days().test))
        assert len(counts) == number
        assert min(counts.values()) > 0.4 * len(split_days().test) / number


def test_the_split_is_the_same_everywhere():
    first = [part[0].isoformat() for part in split_days()]
    assert first == ["1900-01-01", "1900-01-06", "1900-01-02"]


def test_a_sample_is_written_from_its_days(dates, rng):
    days = [date(1900, 1, 31), date(2099, 12, 1), DAY]
    texts, answers, formats = dates.sample(200, days, rng)
    assert set(answers) == {day.isoformat() for day in days}
    assert texts == [
        form.write(date.fromisoformat(answer))
        for form, answer in zip(formats, answers, strict=True)
    ]


@pytest.mark.thorough
def test_all_languages_are_equally_likely_and_so_are_the_formats_of_one(dates, rng):
    formats = dates.sample(24000, [DAY], rng).formats
    languages = Counter(form.language for form in formats)
    assert all(abs(count - 2000) < 250 for count in languages.values())
    french = Counter(form.name for form in formats if form.language == "fr")
    assert all(abs(count - 2000 / len(french)) < 80 for count in french.values())


def test_all_texts_of_all_years_can_be_encoded(dates, rng):
    texts = dates.sample(5000, split_days().test, rng).texts
    _, lengths = dates.source.encode(texts)
    assert lengths.max() <= dates.longest


def test_formats_can_be_left_out():
    left_out = {("fr", "yMEd"), ("en_GB", "long")}
    languages = ("en", "fr")
    names = [
        {(str(form.locale), form.name) for form in dates.formats}
        for dates in (Dates(languages), Dates(languages, without=left_out))
    ]
    assert names[0] - names[1] == left_out


def test_batches_are_training_days_and_no_others(dates):
    training = {day.isoformat() for day in split_days().training}
    for source, source_lengths, target, target_lengths in islice(dates.batches(32, seed=0), 100):
        assert source.shape == (32, source_lengths.max())
        assert target.shape == (32, 12) and (target_lengths == 12).all()
        assert ((source == 0).sum(axis=1) == source.shape[1] - source_lengths).all()
        assert {dates.target.decode(row) for row in target} <= training


def test_batches_hold_little_padding(dates):
    batches = list(islice(dates.batches(32, seed=0), 32))
    used = sum(lengths.sum() for _, lengths, *_ in batches)
    assert used / sum(source.size for source, *_ in batches) > 0.9


@pytest.mark.parametrize("first", [2, 16, 17, 40])
def test_batches_go_on_from_any_step(dates, first):
    count = first + 20
    whole = islice(dates.batches(4, seed=3), first - 1, count)
    rest = islice(dates.batches(4, seed=3, first=first), count - first + 1)
    for batch, again in zip(whole, rest, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(batch, again, strict=True))


def test_no_two_batches_of_any_seeds_are_alike(dates):
    batches = {
        target.tobytes()
        for seed in range(3)
        for _, _, target, _ in islice(dates.batches(4, seed), 50)
    }
    assert len(batches) == 3 * 50


def test_long_texts_do_not_come_after_short_ones(dates):
    longest = [lengths.max() for _, lengths, *_ in islice(dates.batches(8, 0), 64)]
    for drawn_together in np.reshape(longest, (4, 16)):
        rising = (np.diff(drawn_together) > 0).sum()
        falling = (np.diff(drawn_together) < 0).sum()
        assert min(rising, falling) >= 3


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda d: Dates(["xx"]), "language: expected one of CLDR, got 'xx'"),
        (lambda d: Dates(["x/y"]), "language: expected one of CLDR, got 'x/y'"),
        (lambda d: Dates(()), "languages: expected at least one, got none"),
        (
            lambda d: Dates(["fr"], {("fr", f.name) for f in date_formats("fr")}),
            "without: expected a format of 'fr' to be left, got {.*'iso'.*}",
        ),
        (
            lambda d: Dates(["fr"], {("fr", "iso"), ("fr", "shrt")}),
            r"without: expected formats of these languages, got \[\('fr', 'shrt'\)\]",
        ),
        (
            lambda d: d.sample(4, [], np.random.default_rng(0)),
            "days: expected at least one, got none",
        ),
    ],
)
def test_bad_input_is_named(dates, call, message):
    with pytest.raises(ValueError, match=message):
        call(dates)
