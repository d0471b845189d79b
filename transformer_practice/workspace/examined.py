"""What a reader has written is examined, and told in one line for each exercise."""

import re
from typing import NamedTuple

from transformer_practice.engine.examiner import examine
from transformer_practice.engine.exercise import names_of
from transformer_practice.engine.report import Report
from transformer_practice.workspace.folder import Own

RIGHT, WRONG, OPEN = "right", "wrong", "not written yet"


class Examined(NamedTuple):
    """What the examiner says of what a reader has of an exercise; no report: it had nothing."""

    own: Own
    report: Report | None = None

    @property
    def name(self) -> str:
        return self.own.exercise.name

    @property
    def state(self) -> str:
        """Right is what has its gradient, or whatever is asked for, written and right."""
        if self.own.problem or self.report and self.report.written and not self.report.right:
            return WRONG
        if self.report and self.report.right and self.own.functions[-1]:
            return RIGHT
        return OPEN

    @property
    def said(self) -> str:
        """The first sentence of what is wrong, or which of two functions is right already."""
        if self.own.problem:
            return self.own.problem
        if not self.report:
            return ""
        if self.state == OPEN and self.report.right:
            return f"{self.report.verdict} {names_of(self.own.exercise)[-1]}: {OPEN}."
        if self.state == OPEN:
            return self.report.verdict
        first, *_ = re.sub(r"^\S+: right\. ", "", self.report.verdict).splitlines()
        sentence, stop, _ = first.partition(". ")
        return sentence + stop.strip()

    @property
    def line(self) -> str:
        """The state, and what is to be said of it."""
        if self.state == WRONG:
            line = f"{WRONG}: {self.said}"
        elif self.state == OPEN:
            line = self.said or OPEN
        elif all(self.own.functions):
            line = RIGHT
        else:
            line = f"{RIGHT}, with the package's forward pass"
        if self.own.problem or not self.own.absent:
            return line
        return f"{line} (the file has no {', '.join(self.own.absent)})"


def examine_own(own: Own) -> Examined:
    """Have the functions of an exercise examined that are written."""
    if own.problem or not own.written:
        return Examined(own)
    forward, backward = (*own.functions, None)[:2]
    name = own.exercise.name
    try:
        return Examined(own, examine(name, forward, backward))
    except Exception as error:  # the other exercises are examined all the same
        verdict = f"the examiner itself fails: {type(error).__name__}: {error}"
        return Examined(own, Report(name, False, True, verdict))
