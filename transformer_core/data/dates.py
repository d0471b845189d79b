"""Dates as people write them in many languages, and the same dates in ISO 8601.

The names of months and days and the patterns are those of Unicode CLDR, as Babel carries them.
"""

import unicodedata
import zlib
from datetime import date, timedelta
from typing import NamedTuple

from transformer_core.data.characters import Characters

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

# The locales whose patterns make a language, where it is not the one of that name.
LOCALES = {"en": ("en", "en_GB"), "ar": ("ar_EG", "ar")}

CLDR_FORMATS = ("full", "long", "medium", "short")
CLDR_SKELETONS = ("yMd", "yMMMd", "yMMMEd", "yMEd")

# What CLDR does not list and people write.
WRITTEN = {
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

# One string, one date: month-first numbers read day-first everywhere else. With an English
# weekday the American order stands, and the British one goes.
AMBIGUOUS = {("en", "short"), ("en", "yMd"), ("en_GB", "yMEd")}


class Format(NamedTuple):
    """How dates are written: ``name`` in the terms of CLDR, of a language and its locale."""

    language: str
    name: str
    locale: str
    pattern: str
    digits: str

    def write(self, day):
        """Write a date, normalised."""
        from babel import Locale
        from babel.dates import format_date

        locale = Locale.parse(self.locale)
        text = format_date(day, self.pattern, locale)
        return normalise(text).translate(str.maketrans("0123456789", self.digits))
