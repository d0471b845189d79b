"""Dates as people write them in many languages, and the same dates in ISO 8601.

Patterns and names are those of Unicode CLDR, as the package babel carries them. All years have four
digits, and no text stands for two dates: where two languages read one in two ways, one of them does
not write it here, see ``CONTRADICTING``.
"""

import unicodedata
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date, timedelta
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_positive_int, check_whole
from transformer_core.tasks.dates.characters import Characters, strings

if TYPE_CHECKING:
    from babel import Locale

FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)

LANGUAGES = {
    "en": "English",
    "de": "German",
    "fr": "French",
    "es": "Spanish",
    "it": "Italian",
    "pl": "Polish",
    "ru": "Russian",
    "el": "Greek",
    "ar": "Arabic",
    "ja": "Japanese",
    "zh": "Chinese",
    "ko": "Korean",
}

# A language is written as in these locales of CLDR; unless listed, as in the one of its name.
LOCALES = {"en": ("en", "en_GB"), "ar": ("ar_EG", "ar")}

# The numbering systems of CLDR that are not our own digits.
DIGITS = {"arab": str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")}

CLDR_FORMATS = ("full", "long", "medium", "short")
CLDR_SKELETONS = ("yMd", "yMMMd", "yMMMEd", "yMEd")

# What people write and CLDR does not list.
ALSO_WRITTEN = {
    "fr": ("d/M/y",),
    "es": ("dd/MM/y",),
    "it": ("d/M/y",),
    "pl": ("dd.MM.y",),
    "ru": ("d MMMM y",),
    "el": ("dd/MM/y",),
    "ja": ("y年MM月dd日",),
    "zh": ("y年MM月dd日", "y.M.d"),
    "ko": ("y년 MM월 dd일", "y.MM.dd"),
}

# Numbers alone are read day first, or year first, as in every language here but American
# English. Behind an English weekday the month comes first: the British order, which the calendar
# alone could tell from it, has to go there.
CONTRADICTING = {("en", "short"), ("en", "yMd"), ("en_GB", "yMEd")}

# A year in which every weekday meets every month, with days of one digit and of two.
ONE_YEAR = [date(2019, 1, 1) + timedelta(n) for n in range(365)]
PROBES = [date(2019, month, day) for month in range(1, 13) for day in (5, 25)]

SORTED_TOGETHER = 16


class DateFormat:
    """One way to write dates.

    Parameters
    ----------
    language : str
        Of CLDR, such as "fr".
    name : str
        "full", "long", "medium" or "short" as in CLDR, the letters of one of CLDR's skeletons
        such as "yMMMEd", "iso", or "written".
    locale : babel.Locale
    pattern : str
        In CLDR's letters, such as "d MMMM y".
    """

    def __init__(self, language: str, name: str, locale: "Locale", pattern: str):
        self.language, self.name = language, name
        self.locale, self.pattern = locale, pattern
        self.digits = DIGITS.get(locale.default_numbering_system, {})

    def __repr__(self):
        return f"DateFormat({self.locale}, {self.name}, {self.pattern!r})"

    def write(self, day: date) -> str:
        """Write a ``datetime.date``, normalised."""
        from babel.dates import format_date

        text = format_date(day, self.pattern, self.locale)
        return normalise(text.translate(self.digits))


def locales(language: str) -> list["Locale"]:
    """Return the locales of CLDR that a language is written as in."""
    from babel import Locale, UnknownLocaleError

    try:
        return [Locale.parse(name) for name in LOCALES.get(language, (language,))]
    except (UnknownLocaleError, ValueError):
        raise ValueError(f"language: expected one of CLDR, got {language!r}") from None


def date_formats(language: str) -> list[DateFormat]:
    """Return the ways to write dates in a language, all with the full year.

    Parameters
    ----------
    language : str
        Of CLDR, such as "fr".

    Returns
    -------
    list of DateFormat
        No two write every date alike.
    """
    formats: dict[tuple[str, ...], DateFormat] = {}
    for locale in locales(language):
        patterns = [
            (name, source[name].pattern.replace("yy", "y"))
            for names, source in (
                (CLDR_FORMATS, locale.date_formats),
                (CLDR_SKELETONS, locale.datetime_skeletons),
            )
            for name in names
            if name in source
        ]
        patterns += [("written", p) for p in ALSO_WRITTEN.get(language, ())]
        patterns.append(("iso", "y-MM-dd"))
        for name, pattern in patterns:
            if (str(locale), name) not in CONTRADICTING:
                form = DateFormat(language, name, locale, pattern)
                written = tuple(form.write(day) for day in PROBES)
                formats.setdefault(written, form)
    return list(formats.values())


def normalise(text: str) -> str:
    """Return a text in lower case, in Unicode's compatibility form (NFKC), without invisible marks.

    Any run of white space becomes one space. What spelling rules settle is not left to a model:
    full-width digits, capitals, the direction marks in Arabic dates.
    """
    if not isinstance(text, str):
        raise ValueError(f"text: expected a string, got {type(text).__name__}")
    if text.isascii():
        return " ".join(text.lower().split())
    visible = "".join(c for c in text if unicodedata.category(c) != "Cf")
    lower = unicodedata.normalize("NFKC", visible).lower()
    # Once more: of an accented letter, Unicode may have the small form alone, such as ǰ.
    return " ".join(unicodedata.normalize("NFKC", lower).split())


class Split(NamedTuple):
    training: tuple[date, ...]
    validation: tuple[date, ...]
    test: tuple[date, ...]


@cache
def split_days() -> Split:
    """Split the days of 1900 to 2099: 18 of 20 to train, one to choose settings, one to test.

    A checksum of the date decides, so that a day is on the same side everywhere and in every
    language and format.
    """
    parts: dict[str, list[date]] = {part: [] for part in Split._fields}
    for n in range((LAST - FIRST).days + 1):
        day = FIRST + timedelta(n)
        share = zlib.crc32(day.isoformat().encode()) % 20
        part = {0: "test", 1: "validation"}.get(share, "training")
        parts[part].append(day)
    return Split(**{part: tuple(days) for part, days in parts.items()})


class Examples(NamedTuple):
    texts: list[str]
    answers: list[str]
    formats: list[DateFormat]


class Dates:
    """Dates as written for the source, the same in ISO 8601 for the target.

    Parameters
    ----------
    languages : iterable of str
        Of CLDR.
    without : collection of (str, str)
        Locale and name of the formats to leave out.
    """

    def __init__(
        self,
        languages: Iterable[str] = tuple(LANGUAGES),
        without: Collection[tuple[str, str]] = (),
    ):
        self.formats, shares, unknown = [], [], set(without)
        for language in strings("languages", languages):
            every = date_formats(language)
            formats = [f for f in every if (str(f.locale), f.name) not in without]
            unknown -= {(str(f.locale), f.name) for f in every}
            if not formats:
                raise ValueError(
                    f"without: expected a format of {language!r} to be left, got {without}"
                )
            self.formats += formats
            shares += [1 / len(formats)] * len(formats)
        if not self.formats:
            raise ValueError("languages: expected at least one, got none")
        if unknown:
            raise ValueError(
                f"without: expected formats of these languages, got {sorted(unknown)}"
            )
        self.shares = np.array(shares) / sum(shares)
        texts = [form.write(day) for form in self.formats for day in ONE_YEAR]
        self.source = Characters(sorted(set("".join(texts))))
        self.target = Characters("-0123456789")
        self.longest = max(map(len, texts))

    def sample(
        self, size: int, days: Sequence[date], rng: np.random.Generator
    ) -> Examples:
        """Draw days, each in a format of a language; all languages are equally likely.

        Parameters
        ----------
        size : int
        days : sequence of datetime.date
            To draw from, see :func:`split_days`.
        rng : numpy.random.Generator

        Returns
        -------
        Examples
        """
        check_positive_int("size", size)
        if not days:
            raise ValueError("days: expected at least one, got none")
        drawn = [days[n] for n in rng.integers(len(days), size=size)]
        ways = rng.choice(len(self.formats), size, p=self.shares)
        formats = [self.formats[way] for way in ways]
        texts = [form.write(day) for form, day in zip(formats, drawn, strict=True)]
        return Examples(texts, [day.isoformat() for day in drawn], formats)

    def batches(
        self, size: int, seed: int, first: int = 1
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Draw training batches without end.

        Little of them is padding, because texts of like length come together: many batches are
        drawn at once, sorted by length, cut, and shuffled. The batch of a step depends on
        ``seed`` and the step alone.

        Parameters
        ----------
        size : int
            B.
        seed : int
        first : int
            The first step, counted from 1.

        Yields
        ------
        source : ndarray of int (B, S)
        source_lengths : ndarray of int (B,)
        target : ndarray of int (B, 12)
            A start, ten characters, an end.
        target_lengths : ndarray of int (B,)
        """
        check_positive_int("size", size)
        check_whole("seed", seed)
        check_positive_int("first", first)
        together, done = divmod(first - 1, SORTED_TOGETHER)
        while True:
            rng = np.random.default_rng((seed, together))
            drawn = self.sample(size * SORTED_TOGETHER, split_days().training, rng)
            order = np.argsort([len(text) for text in drawn.texts], kind="stable")
            for rows in rng.permutation(order.reshape(SORTED_TOGETHER, size))[done:]:
                yield (
                    *self.source.encode([drawn.texts[row] for row in rows]),
                    *self.target.encode([drawn.answers[row] for row in rows], True),
                )
            together, done = together + 1, 0
