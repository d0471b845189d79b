"""What the examiner says of every answer in ``versions``: the figures of its page in the book.

``python tests/practice/confusion.py`` prints them as JSON.
"""

import json
import sys
from pathlib import Path
from time import process_time
from typing import NamedTuple

if __name__ == "__main__":
    sys.path[:0] = map(str, Path(__file__).resolve().parents[1:3])

from practice.versions import PLANTED, RIGHT, UNKNOWN
from practice.versions.unseen import UNSEEN

from transformer_practice import examine

KINDS = {"right": RIGHT, "planted": PLANTED, "unknown": UNKNOWN, "unseen": UNSEEN}


class Finding(NamedTuple):
    """What the examiner says of an answer."""

    group: str
    exercise: str
    version: str
    label: str  # a name in the catalogue, or what is wrong
    right: bool
    mistakes: tuple[str, ...]  # as the examiner names them, best first
    said: str  # first, after the verdict
    seconds: float


def finding(answer):
    """Examine one answer; the first of an exercise waits for all its mistakes to be run once."""
    functions = answer.functions()
    start = process_time()
    report = examine(answer.exercise, **functions)
    seconds = process_time() - start
    said = (*report.explanations, report.verdict)[0].partition("\n")[0]
    return Finding(
        answer.group,
        answer.exercise,
        answer.version.__name__,
        answer.label,
        report.right,
        report.mistakes,
        said,
        round(seconds, 3),
    )


if __name__ == "__main__":
    found = {
        kind: [finding(answer)._asdict() for answer in answers] for kind, answers in KINDS.items()
    }
    print(json.dumps(found))
