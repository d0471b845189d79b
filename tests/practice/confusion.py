"""What the examiner says of every answer in ``versions``: the figures of its page in the book.

``python tests/practice/confusion.py`` prints them as JSON.
"""

import json
import sys
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

if __name__ == "__main__":
    sys.path[:0] = map(str, Path(__file__).resolve().parents[1:3])

from practice.versions import PLANTED, RIGHT, UNKNOWN

from transformer_core.practice import examine


class Finding(NamedTuple):
    exercise: str
    version: str
    label: str  # a name in the catalogue, or what is wrong
    right: bool
    mistakes: tuple[str, ...]  # as the examiner names them, best first
    seconds: float


def finding(answer):
    """Examine one answer."""
    functions = answer.functions()
    start = perf_counter()
    report = examine(answer.exercise, **functions)
    return Finding(
        answer.exercise,
        answer.version.__name__,
        answer.label,
        report.right,
        report.mistakes,
        round(perf_counter() - start, 2),
    )


def findings():
    """Examine every answer; the first of an exercise also runs all its mistakes once."""
    return {
        kind: [finding(answer) for answer in answers]
        for kind, answers in {
            "right": RIGHT,
            "planted": PLANTED,
            "unknown": UNKNOWN,
        }.items()
    }


if __name__ == "__main__":
    print(json.dumps(findings()))
