"""Reading dates by rules: what a model that learns has to be compared with."""

import re
from collections.abc import Iterable
from datetime import date

from transformer_core.tasks.dates.characters import strings
from transformer_core.tasks.dates.data import LANGUAGES, locales, normalise


class DateRules:
    """Reads a date by regular expressions and CLDR's names of the months.

    The year is the number of four digits. A name is the month, and the number left is the day.
    Of three numbers those behind a year are month and day; those before it are what they can be,
    and where both can be both, in the given order.

    Parameters
    ----------
    languages : iterable of str
        Of CLDR.
    month_first : bool
        That order: 3/5/1998 is in March if true, in May if false.
    """

    def __init__(
        self, languages: Iterable[str] = tuple(LANGUAGES), month_first: bool = False
    ):
        self.month_first = month_first
        self.month_of = {}
        for language in strings("languages", languages):
            for locale in locales(language):
                for widths in locale.months.values():
                    for width in ("wide", "abbreviated"):
                        for month, name in widths[width].items():
                            self.month_of[normalise(name).rstrip(".")] = month
        if not self.month_of:
            raise ValueError("languages: expected at least one, got none")
        names = sorted(self.month_of, key=len, reverse=True)
        self.name = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b")

    def read(self, text: str) -> str:
        """Return the date in ISO 8601, or "" where the rules find none."""
        text = normalise(text)
        numbers = re.findall(r"\d+", text)
        names = self.name.findall(text)
        years = [number for number in numbers if len(number) == 4]
        others = [int(number) for number in numbers if len(number) < 4]
        if names and len(others) == 1:
            month, day = (
                self.month_of[names[-1]],
                others[0],
            )  # the first may be a weekday
        elif len(others) == 2:
            in_order = numbers[0] in years or self.month_first
            month, day = others if in_order else reversed(others)
            if month > 12:
                month, day = day, month
        else:
            return ""
        try:
            return date(int(years[0]), month, day).isoformat()
        except (IndexError, ValueError):
            return ""
