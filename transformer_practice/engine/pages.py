"""Where the built book has what an exercise is about: the numbers of its page and equations."""

import json
import re
from functools import cache
from pathlib import Path

from transformer_practice.engine.exercise import Exercise


def place_of(exercise: Exercise) -> str:
    """Say the chapter of an exercise, and its equations: "chapter 6, ...: (6.1), (6.7)".

    Of an exercise that is not of this book, nothing.
    """
    if exercise.chapter not in pages():
        return ""
    labels = dict.fromkeys(
        label for about in exercise.functions for label in about.equation.split(", ")
    )
    numbers = [f"({numbers_of()[label]})" for label in labels if label in numbers_of()]
    colon = ": " if numbers else ""
    return f"{title_of(exercise.chapter)}{colon}{', '.join(numbers)}"


def title_of(chapter: str) -> str:
    """Return the number and the title of a chapter: "chapter 6, Layer normalisation"."""
    page = pages()[chapter]
    return f"chapter {page['number']}, {page['title']}"


def numbered(text: str) -> str:
    """Return a text with the numbers of equations for their labels: "equation (6.1)"."""

    def numbers(found):
        labels = found[0].split(", ")
        several = "s" * (len(labels) > 1)
        return f"equation{several} {' and '.join(f'({numbers_of()[n]})' for n in labels)}"

    return re.sub(r"eq:[\w-]+(, eq:[\w-]+)*", numbers, text)


@cache
def pages() -> dict[str, dict]:
    """Return the number, the title and the equations of each page, as the book was built last."""
    path = Path(__file__).parents[1] / "pages.json"
    return json.loads(path.read_text(encoding="utf-8"))


@cache
def numbers_of() -> dict[str, str]:
    """Return the number of each labelled equation: "6.1"."""
    return {
        label: f"{page['number']}.{at}"
        for page in pages().values()
        for at, label in enumerate(page["equations"], 1)
    }
